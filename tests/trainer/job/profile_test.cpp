// SPDX-License-Identifier: Apache-2.0
// Profiles of real steps.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>

#include "profiler/metrics.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {
namespace {

using profiler::OperatorTotal;

std::int64_t calls_of(const JobProfile& profile, const std::string& name) {
  for (const OperatorTotal& one : profile.operators) {
    if (one.name == name) return one.calls;
  }
  return 0;
}

TEST(Profile, HasEveryMetricAndOperator) {
  const auto job = load(small_cnn_recipe());
  const JobProfile profile = value_of(job->profile(6, 2, never));
  for (const profiler::MetricDefinition& metric : profiler::metric_definitions()) {
    EXPECT_TRUE(profile.metrics.contains(metric.name)) << metric.name;
  }
  EXPECT_EQ(job->steps(), 8);
  EXPECT_EQ(profile.metrics.at("step.samples"), 20.0);
  EXPECT_EQ(profile.metrics.at("gradients.complete"), 1.0);
  EXPECT_EQ(profile.metrics.at("parameters.count"), static_cast<double>(job->facts().parameters));
  EXPECT_EQ(profile.metrics.at("transfer.bytes_per_step"), 20.0 * (2 * 12 * 12 * 4 + 8));
  EXPECT_GT(profile.metrics.at("loader.sample_ns"), 0.0);
  EXPECT_GT(profile.metrics.at("operators.gemm_conv_ratio"), 0.0);
  EXPECT_LT(profile.metrics.at("operators.gemm_conv_ratio"), 1.0);
  EXPECT_GT(profile.metrics.at("memory.peak_host_bytes"), 1e6);
  EXPECT_EQ(profile.metrics.at("memory.pinned_bytes"), 0.0);
  EXPECT_EQ(calls_of(profile, "aten::conv2d"), 12);
  EXPECT_EQ(calls_of(profile, "aten::convolution_backward"), 12);
  EXPECT_TRUE(std::ranges::is_sorted(profile.operators, std::greater{}, &OperatorTotal::self_ns));
}

TEST(Profile, TheSpansOfAStepAddUp) {
  const auto job = load(small_recipe());
  const JobProfile profile = value_of(job->profile(5, 0, never));
  ASSERT_FALSE(profile.spans.empty());
  const profiler::SpanTotal& step = profile.spans.front();
  EXPECT_EQ(step.name, "step");
  EXPECT_EQ(step.count, 5);
  std::int64_t inside = 0;
  for (const profiler::SpanTotal& span : profile.spans) {
    EXPECT_EQ(span.count, 5) << span.name;
    if (span.name != "step") inside += span.total_ns;
  }
  EXPECT_EQ(profile.spans.size(), 8U);
  EXPECT_EQ(step.total_ns - inside, step.self_ns);
}

TEST(Profile, TellsWhatACheckpointCosts) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.checkpoint_every = std::chrono::seconds(1);
  const auto job = load(recipe);
  const std::string digest = value_of(job->digest());
  EXPECT_EQ(value_of(job->profile(1, 0, never)).metrics.at("train.checkpoint_ratio"), 0.0);
  EXPECT_FALSE(job->time_checkpoint(folder / "missing" / "c"));
  ASSERT_TRUE(job->restore("initial"));
  ASSERT_TRUE(job->time_checkpoint(folder / "c"));
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
  EXPECT_EQ(value_of(job->digest()), digest);
  const auto metrics = value_of(job->profile(1, 0, never)).metrics;
  const double took = metrics.at("checkpoint.copy_ns") + metrics.at("checkpoint.write_ns");
  EXPECT_GT(metrics.at("checkpoint.copy_ns"), 0.0);
  EXPECT_GT(metrics.at("checkpoint.write_ns"), 0.0);
  EXPECT_DOUBLE_EQ(metrics.at("train.checkpoint_ratio"), took / (1e9 + took));
}

TEST(Profile, OfSlowStepsHasFewer) {
  const auto job = load(small_recipe());
  const JobProfile profile = value_of(job->profile(5, 3, never, /*maximum_ns=*/1));
  EXPECT_EQ(profile.spans.front().count, 1);
  EXPECT_EQ(job->steps(), 2);  // one to warm up
}

TEST(Profile, SeesTheFillsOfGradientsOnlyWhereTheyAre) {
  const recipes::Recipe recipe = small_cnn_recipe();
  const auto job = load(recipe);
  EXPECT_EQ(value_of(job->profile(4, 1, never)).metrics.at("operators.fill_ratio"), 0.0);
  value_of(job->prepare(with(starting(recipe), "optimizer.set_to_none", false)));
  EXPECT_GT(value_of(job->profile(4, 1, never)).metrics.at("operators.fill_ratio"), 0.0);
}

TEST(Profile, SeesTheTransferType) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("loader.float_from_uint8_ratio"), 1.0);
  value_of(job->prepare(with(starting(recipe), "transfer.dtype", "uint8")));
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("loader.float_from_uint8_ratio"), 0.0);
}

TEST(Profile, SeesTheLossReadOnlyWhereItIs) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  const auto reading = [&] {
    return value_of(job->profile(4, 0, never)).metrics.at("step.loss_reading_ratio");
  };
  EXPECT_EQ(reading(), 0.0);
  value_of(job->prepare(with(starting(recipe), "train.loss_reading", "every_step")));
  EXPECT_GT(reading(), 0.0);
  value_of(job->prepare(starting(recipe)));
  EXPECT_EQ(reading(), 0.0);
}

TEST(Profile, SeesGatherAndWhatTakesItsPlace) {
  const recipes::Recipe recipe = patch_dropout_recipe();
  const auto job = load(recipe);
  const auto expect_gathers = [&](const std::string& backward, const std::string& no_backward) {
    const JobProfile profile = value_of(job->profile(4, 1, never));
    EXPECT_EQ(calls_of(profile, "aten::gather"), 4);
    const auto calls_of_node = [&](const std::string& node) {
      std::int64_t calls = 0;
      for (const OperatorTotal& one : profile.operators) {
        if (profiler::is_gather(one.name) && one.name.find(node) != std::string::npos)
          calls += one.calls;
      }
      return calls;
    };
    EXPECT_EQ(calls_of_node(backward), 4);
    EXPECT_EQ(calls_of_node(no_backward), 0);
    EXPECT_GT(profile.metrics.at("operators.gather_ratio"), 0.0);
    EXPECT_LT(profile.metrics.at("operators.gather_ratio"), 1.0);
  };
  expect_gathers("GatherBackward0", "GatherRows");
  value_of(job->prepare(with(starting(recipe), "rewrite.gather", "indexing")));
  expect_gathers("GatherRows", "GatherBackward0");
  value_of(job->prepare(starting(recipe)));
  expect_gathers("GatherBackward0", "GatherRows");
}

TEST(Profile, SeesNoGatherWhereThereIsNone) {
  const auto job = load(small_recipe());
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("operators.gather_ratio"), 0.0);
}

// The loader would go on timing parts in every block after it.
TEST(Profile, ThatFailsLeavesNoPartTimed) {
  const auto job = load(small_recipe());
  EXPECT_FALSE(job->times_parts());
  // Stopped while it warms up, and in its first step.
  for (const std::int64_t warmup_steps : {2, 0}) {
    bool was_timed = false;
    const auto stop = [&] {
      was_timed = was_timed || job->times_parts();
      return was_timed;
    };
    const auto profile = job->profile(5, warmup_steps, stop);
    ASSERT_FALSE(profile) << warmup_steps;
    EXPECT_EQ(profile.error().kind, ErrorKind::cancelled);
    EXPECT_TRUE(was_timed) << warmup_steps;
    EXPECT_FALSE(job->times_parts()) << warmup_steps;
  }
  ASSERT_TRUE(job->profile(1, 0, never));
  EXPECT_FALSE(job->times_parts());
}

TEST(Profile, DoesNotChangeTheTraining) {
  const auto one = load(small_cnn_recipe());
  value_of(one->profile(6, 2, never));
  const auto two = load(small_cnn_recipe());
  value_of(two->run_steps(8, never));
  EXPECT_EQ(value_of(one->digest()), value_of(two->digest()));
}

}  // namespace
}  // namespace autotuned::trainer
