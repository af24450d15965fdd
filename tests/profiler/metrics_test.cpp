// SPDX-License-Identifier: Apache-2.0
#include "profiler/metrics.hpp"
#include "tests/places.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace autotuned::profiler {
namespace {

ProfileFacts some_facts() {
  ProfileFacts facts;
  facts.steps = 4;
  facts.samples = 128;
  facts.wall_ns = 2000;
  facts.cpu_ns = 3000;
  facts.kernel_cpu_ns = 600;
  facts.page_faults = 10;
  facts.storage_bytes = 6;
  facts.cpus_allowed = 2;
  facts.spans = {{"step", 4, 1000, 95},     {"data_wait", 4, 200, 200}, {"transfer", 4, 50, 50},
                 {"zero_grad", 4, 20, 20},  {"forward", 4, 250, 250},   {"loss", 4, 30, 30},
                 {"backward", 4, 300, 300}, {"optimizer", 4, 50, 50},   {"loss_reading", 4, 5, 5}};
  facts.operators = {{"aten::conv2d", "forward", 4, 150, 10},
                     {"aten::mkldnn_convolution", "forward", 4, 140, 140},
                     {"aten::addmm", "forward", 4, 60, 60},
                     {"aten::convolution_backward", "backward", 4, 190, 190},
                     {"aten::zero_", "zero_grad", 8, 16, 4},
                     {"aten::fill_", "zero_grad", 8, 12, 12},
                     {"aten::fill_", "backward", 1, 7, 7},
                     {"ConvolutionBackward0", "backward", 4, 300, 110},
                     {"aten::gather", "forward", 4, 20, 15},
                     {"GatherBackward0", "backward", 4, 30, 5}};
  facts.loader_samples = 128;
  facts.loader_thread_ns = 1280;
  facts.timed_samples = 64;  // of these 10 ns each
  facts.reading_ns = 64;
  facts.decoding_ns = 320;
  facts.prefix_ns = 480;
  facts.cached_samples = 30;
  facts.stored_samples = 40;
  facts.cache_bytes = 333;
  facts.cache_fill_ns = 444;
  facts.is_float_from_uint8 = true;
  facts.transfer_bytes = 4000;
  facts.pageable_transfer_bytes = 1000;
  facts.checkpoint_copy_ns = 5;
  facts.checkpoint_write_ns = 20;
  facts.checkpoint_every_ns = 100;
  facts.peak_host_bytes = 111;
  facts.pinned_bytes = 4096;
  facts.peak_device_bytes = 222;
  facts.parameters = 5;
  facts.parameter_bytes = 20;
  facts.has_every_gradient = true;
  facts.rank_wait_ns = 150;
  return facts;
}

TEST(Metrics, AreComputedFromTheFacts) {
  const Metrics metrics = metrics_of(some_facts());
  const Metrics expected = {{"step.duration_ns", 250.0},
                            {"step.samples", 32.0},
                            {"samples_per_second", 128e9 / 1000.0},
                            {"step.data_wait_ratio", 0.2},
                            {"step.transfer_ratio", 0.05},
                            {"step.zero_grad_ratio", 0.02},
                            {"step.forward_ratio", 0.25},
                            {"step.loss_ratio", 0.03},
                            {"step.backward_ratio", 0.3},
                            {"step.optimizer_ratio", 0.05},
                            {"step.loss_reading_ratio", 0.005},
                            {"step.other_ratio", 0.095},
                            {"input.read_ratio", 0.1},
                            {"input.decode_ratio", 0.5},
                            {"input.prefix_ratio", 0.75},
                            {"input.cached_ratio", 0.75},
                            {"input.cache_bytes", 333.0},
                            {"input.cache_fill_ns", 444.0},
                            {"input.storage_bytes_per_step", 1.5},
                            {"loader.cost_ratio", 0.2},
                            {"loader.sample_ns", 10.0},
                            {"loader.float_from_uint8_ratio", 1.0},
                            {"transfer.bytes_per_step", 1000.0},
                            {"transfer.pageable_ratio", 0.25},
                            {"operators.gemm_conv_ratio", 0.4},
                            {"operators.fill_ratio", 0.016},
                            {"operators.gather_ratio", 0.05},
                            {"operators.count_per_step", 37.0 / 4},
                            {"operators.mean_ns", 438.0 / 37},
                            {"memory.peak_host_bytes", 111.0},
                            {"memory.pinned_bytes", 4096.0},
                            {"memory.peak_device_bytes", 222.0},
                            {"memory.page_faults_per_step", 2.5},
                            {"cpu.kernel_ratio", 0.2},
                            {"cpu.utilization_ratio", 0.75},
                            {"ranks.behind_ratio", 0.0},
                            {"ranks.exposed_ratio", 0.15},
                            {"ranks.slowest", 0.0},
                            {"checkpoint.copy_ns", 5.0},
                            {"checkpoint.write_ns", 20.0},
                            {"train.checkpoint_ratio", 0.2},
                            {"parameters.count", 5.0},
                            {"parameters.bytes", 20.0},
                            {"gradients.complete", 1.0}};
  ASSERT_EQ(metrics.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(metrics.contains(name)) << name;
    EXPECT_DOUBLE_EQ(metrics.at(name), value) << name;
  }
}

TEST(Metrics, TheRatiosOfAStepAddUpToOne) {
  ProfileFacts facts = some_facts();
  for (const std::int64_t step_ns : {900, 1000, 123'456'789}) {
    facts.spans[0].total_ns = step_ns;
    double sum = 0.0;
    for (const auto& [name, value] : metrics_of(facts)) {
      if (name.starts_with("step.") && name.ends_with("_ratio")) sum += value;
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(Metrics, PhasesThatDidNotHappenAreZero) {
  const Metrics metrics =
      metrics_of({.steps = 1, .samples = 1, .wall_ns = 10, .spans = {{"step", 1, 10, 10}}});
  EXPECT_EQ(metrics.at("step.data_wait_ratio"), 0.0);
  EXPECT_EQ(metrics.at("step.other_ratio"), 1.0);
  EXPECT_EQ(metrics.at("operators.mean_ns"), 0.0);
  EXPECT_EQ(metrics.at("loader.sample_ns"), 0.0);
  EXPECT_EQ(metrics.at("transfer.pageable_ratio"), 0.0);
  EXPECT_EQ(metrics.at("gradients.complete"), 0.0);
}

TEST(Metrics, DefinitionsAndValuesAreTheSameNames) {
  const Metrics metrics = metrics_of(some_facts());
  std::string before;
  for (const MetricDefinition& metric : metric_definitions()) {
    EXPECT_LT(before, metric.name) << "sorted";
    EXPECT_TRUE(metrics.contains(metric.name)) << metric.name;
    before = metric.name;
  }
  EXPECT_EQ(metric_definitions().size(), metrics.size());
}

// docs/metrics.md repeats the table row by row.
TEST(Metrics, AreDocumented) {
  std::ifstream file(tests::source_folder() / "docs/metrics.md");
  ASSERT_TRUE(file.is_open());
  std::vector<std::string> rows;
  // The first table of the file; others have rows like that, too.
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) {
      rows.push_back(line);
    } else if (!rows.empty()) {
      break;
    }
  }
  std::vector<std::string> expected;
  for (const MetricDefinition& metric : metric_definitions()) {
    expected.push_back("| `" + std::string(metric.name) + "` | " + metric.unit + " | " +
                       to_string(metric.kind) + " | " + metric.meaning + " |");
  }
  EXPECT_EQ(rows, expected);
}

TEST(Operators, AddsUpOverSpans) {
  const std::vector<OperatorTotal> operators = {{"aten::fill_", "zero_grad", 2, 20, 10},
                                                {"aten::mm", "forward", 1, 50, 50},
                                                {"aten::fill_", "backward", 1, 5, 5}};
  EXPECT_THAT(by_name(operators, 0),
              testing::ElementsAre(OperatorTotal{"aten::mm", "", 1, 50, 50},
                                   OperatorTotal{"aten::fill_", "", 3, 25, 15}));
  EXPECT_EQ(by_name(operators, 1).size(), 1U);
}

TEST(Operators, SumsOfNonsenseStayWithinBounds) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const auto totals = by_name({{.name = "aten::mm", .total_ns = -kMax, .self_ns = kMax},
                               {.name = "aten::mm", .total_ns = -kMax, .self_ns = 5}},
                              0);
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].self_ns, kMax);
  EXPECT_EQ(totals[0].total_ns, std::numeric_limits<std::int64_t>::min());
}

TEST(Operators, KnowsGatherAndItsBackward) {
  const std::string rows =
      "torch::autograd::CppNode<autotuned::trainer::(anonymous namespace)::GatherRows>";
  for (const std::string& name :
       {std::string("aten::gather"), std::string("GatherBackward0"), rows}) {
    EXPECT_TRUE(is_gather(name)) << name;
  }
  EXPECT_FALSE(is_gather("aten::scatter_add_"));
  for (const std::string& node : {std::string("GatherBackward0"), rows}) {
    EXPECT_FALSE(is_gather("autograd::engine::evaluate_function: " + node)) << node;
  }
}

TEST(Operators, KnowsProductsAndConvolutions) {
  for (const char* name : {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::conv2d",
                           "aten::convolution", "aten::_convolution", "aten::mkldnn_convolution",
                           "aten::cudnn_convolution", "aten::convolution_backward", "aten::linear",
                           "aten::_slow_conv2d_forward"}) {
    EXPECT_TRUE(is_gemm_or_convolution(name)) << name;
  }
  for (const char* name : {"aten::mul", "aten::max_pool2d", "aten::addcmul_",
                           "ConvolutionBackward0", "aten::contiguous", "aten::mean", "mm"}) {
    EXPECT_FALSE(is_gemm_or_convolution(name)) << name;
  }
}

}  // namespace
}  // namespace autotuned::profiler
