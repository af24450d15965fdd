// SPDX-License-Identifier: Apache-2.0
// Every rule with a trace that it is about, and with one of the same kind that is all right.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>

#include "profiler/analysis/trace_analysis.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kMs = 1000;
constexpr const char* kRuleWaiting =
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
constexpr const char* kMaking = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

struct RuleCase {
  const char* rule;
  TraceText fires;
  TraceText quiet;
};
using RuleCases = std::vector<RuleCase>;

// One step of 100 us in which the host calls something.
TraceText step_with(const std::string& category, const std::string& name, double length,
                    const Json& arguments = Json::object()) {
  TraceText text;
  return text.step(1, 0, 100).event(category, name, 0, length, arguments);
}

// The same on a job that uses a GPU.
TraceText gpu_step_with(const std::string& category, const std::string& name, double length,
                        const Json& arguments = Json::object()) {
  return step_with(category, name, length, arguments).kernel("a", 60, 61, 30);
}

TraceText kernel_step(double length, const Json& arguments = Json::object(),
                      const std::string& name = "a") {
  TraceText text;
  return text.step(1, 0, 100).kernel(name, 0, 1, length, arguments);
}

TraceText copy_step(const std::string& kind, double length) {
  TraceText text;
  return text.step(1, 0, 100)
      .kernel("a", 0, 1, 2)  // what comes before the first work of a step is none of it
      .kernel("a", 60, 61, 20)
      .event("gpu_memcpy", "Memcpy " + kind, 5, length, {{"device", 0}, {"bytes", 4096}});
}

// Steps of these lengths, one after the other.
TraceText steps_of(const std::vector<int>& lengths) {
  TraceText text;
  int at = 0;
  for (int i = 0; i < static_cast<int>(lengths.size()); ++i) {
    const int length = lengths[static_cast<std::size_t>(i)];
    text.step(i, at, length).event("cpu_op", "aten::mm", at, length / 2);
    at += length;
  }
  return text;
}

// Steps of 100 ms that wait so long for their batches.
TraceText waits_of(const std::vector<int>& waits_ms) {
  TraceText text;
  for (int i = 0; i < static_cast<int>(waits_ms.size()); ++i) {
    const int at = i * 100 * kMs;
    text.step(i, at, 100 * kMs);
    text.event("user_annotation", kRuleWaiting, at, waits_ms[static_cast<std::size_t>(i)] * kMs);
    text.event("cpu_op", "aten::mm", at + 60 * kMs, 30 * kMs);
  }
  return text;
}

struct Transform {
  std::string name;
  double length;
};

// A step of 100 us with threads that make a sample each, of these parts.
TraceText made_by(const std::vector<std::vector<Transform>>& threads, int cpus = 4) {
  TraceText text;
  text.json()["cpusAllowed"] = cpus;
  text.step(1, 0, 100)
      .event("user_annotation", kRuleWaiting, 0, 50)
      .event("cpu_op", "aten::mm", 50, 50);
  int thread = 10;
  for (const auto& parts : threads) {
    double at = 0;
    for (const Transform& part : parts) {
      text.event("user_annotation", part.name, at, part.length, Json::object(), thread);
      at += part.length;
    }
    text.event("user_annotation", "make_samples", 0, at, Json::object(), thread++);
  }
  return text;
}

TraceText reads_of(double first, double later) {
  std::vector<Transform> parts;
  for (int i = 0; i < 30; ++i)
    parts.push_back({"read_sample", i < 10 ? first : later});
  return made_by({parts});
}

RuleCases input_cases() {
  const std::vector<Transform> half = {{"read_sample", 10}, {"random_crop", 80}};
  const std::vector<Transform> little = {{"read_sample", 1}, {"random_crop", 4}};
  return {
      {"data_loading", step_with("user_annotation", kRuleWaiting, 20),
       step_with("user_annotation", kRuleWaiting, 2)},
      {"loading_in_training_process", step_with("user_annotation", kMaking, 20),
       step_with("user_annotation", kMaking, 2)},
      {"periodic_wait", waits_of({60, 2, 2, 60, 2, 2, 60, 2, 2, 60}),
       waits_of({10, 2, 2, 10, 2, 2, 10, 2, 2, 10})},
      {"loading_hidden", step_with("cpu_op", "aten::mm", 50), step_with("cpu_op", "aten::mm", 90)},
      {"uneven_steps", steps_of({100, 100, 100, 300, 100, 100}),
       steps_of({100, 100, 100, 150, 100, 100})},
      {"loading_hidden_in_operators", gpu_step_with("cpu_op", "aten::stack", 40),
       gpu_step_with("cpu_op", "aten::stack", 40)
           .event("user_annotation", "Optimizer.step#SGD.step", 0, 50)},
      {"prefetch_starved", waits_of({40, 2, 2, 40, 2, 40, 2, 2, 2, 2}),
       waits_of({40, 2, 2, 2, 2, 2, 2, 2, 2, 2})},
      {"loader_order", made_by({{{"read_sample", 10}, {"dilate", 40}, {"random_crop", 5}}}),
       made_by({{{"read_sample", 10}, {"random_crop", 5}, {"dilate", 40}}})},
      {"too_few_cores", made_by({half, half}, 2), made_by({half, half}, 8)},
      {"too_many_workers", made_by({half, half, half}, 1), made_by({half, half, half}, 2)},
      {"uneven_workers", made_by({half, little, little, little}),
       made_by({half, half, half, half})},
      {"slow_reading", made_by({{{"read_sample", 60}, {"random_crop", 10}}}),
       made_by({{{"read_sample", 10}, {"random_crop", 60}}})},
      {"cold_cache", reads_of(4, 0.5), reads_of(1, 0.5)},
  };
}

TraceText tiny_kernels(double call_apart) {
  TraceText text;
  text.step(1, 0, 100);
  for (int i = 0; i < 10; ++i)
    text.kernel("tiny", i * call_apart, i * 10 + 5, 2);
  return text;
}

TraceText kernels_apart(double gap) {
  TraceText text;
  return text.step(1, 0, 2'000'000).kernel("a", 0, 1, 10).kernel("a", 2, 11 + gap, 10);
}

// Six operators, `apart` us one from the other.
TraceText loaded_step(double apart) {
  TraceText text;
  text.step(1, 0, 100 + 6 * (300 + apart)).event("user_annotation", kRuleWaiting, 0, 100);
  for (int i = 0; i < 6; ++i)
    text.event("cpu_op", "aten::mm", 100 + i * (300 + apart), 300);
  return text;
}

RuleCases device_cases() {
  return {
      {"low_utilization", kernel_step(40), kernel_step(90)},
      {"launch_bound", tiny_kernels(10), tiny_kernels(0.1)},
      {"scalar_reads", gpu_step_with("cpu_op", "aten::_local_scalar_dense", 20),
       gpu_step_with("cpu_op", "aten::_local_scalar_dense", 2)},
      {"synchronization", gpu_step_with("cuda_runtime", "cudaStreamSynchronize", 20),
       gpu_step_with("cuda_runtime", "cudaStreamSynchronize", 2)},
      {"long_gap", kernels_apart(900'000), kernels_apart(300'000)},
      {"host_bound", kernel_step(10), kernel_step(60)},
      {"uneven_utilization", kernel_step(80), kernel_step(95)},
      {"unexplained_time", loaded_step(500), loaded_step(50)},
      {"launch_queue_full", gpu_step_with("overhead", "Command Buffer Full", 5),
       gpu_step_with("overhead", "Activity Buffer Request", 5)},
      {"device_allocations", gpu_step_with("cuda_runtime", "cudaMalloc", 10),
       gpu_step_with("cuda_runtime", "cudaMallocAsync", 10)},
      {"pageable_copies", copy_step("HtoD (Pageable -> Device)", 10),
       copy_step("HtoD (Pinned -> Device)", 10)},
      {"exposed_copies", copy_step("HtoD (Pinned -> Device)", 20),
       copy_step("HtoD (Pinned -> Device)", 20).kernel("b", 1, 2, 40)},
      {"heavy_transfer", copy_step("HtoD (Pinned -> Device)", 20),
       copy_step("HtoD (Pinned -> Device)", 5)},
      {"float_from_uint8",
       step_with("cpu_op", "aten::copy_", 10, {{"Input type", {"float", "unsigned char"}}}),
       step_with("cpu_op", "aten::copy_", 10, {{"Input type", {"unsigned char", "float"}}})},
      {"results_copied_back", copy_step("DtoH (Device -> Pageable)", 10),
       copy_step("DtoH (Device -> Pageable)", 2)},
      {"synchronous_copies", gpu_step_with("cuda_runtime", "cudaMemcpy", 10),
       gpu_step_with("cuda_runtime", "cudaMemcpyAsync", 10)},
      {"synchronous_fills", gpu_step_with("cuda_runtime", "cudaMemset", 10),
       gpu_step_with("cuda_runtime", "cudaMemsetAsync", 10)},
  };
}

TraceText drifting(double second) {
  TraceText text;
  text.step(1, 0, 1000);
  for (int i = 0; i < 20; ++i)
    text.kernel("k", i * 40, i * 40 + 2, i < 10 ? 10 : second);
  return text;
}

// Two operators that share a step.
TraceText two_operators(const std::string& first, double first_length,
                        const std::string& second = "aten::relu") {
  return step_with("cpu_op", first, first_length)
      .event("cpu_op", second, first_length, 100 - first_length);
}

TraceText many_operators(int count, double length) {
  TraceText text;
  text.step(1, 0, 1000);
  for (int i = 0; i < count; ++i)
    text.event("cpu_op", "aten::add", i * length, length);
  return text;
}

TraceText gemm_step(const std::string& kernel) {
  TraceText text;
  text.json()["deviceProperties"] = {{{"id", 0}, {"computeMajor", 8}, {"totalGlobalMem", 1000}}};
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 0, 10, {{"External id", 1}});
  return text.kernel(kernel, 5, 10, 60, {{"External id", 1}});
}

TraceText zero_grad_step(double length) {
  return step_with("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", length)
      .event("cpu_op", "aten::zero_", 0.1, 0.1);
}

RuleCases arithmetic_cases() {
  const auto blocks = [](double per_sm) { return Json{{"blocks per SM", per_sm}}; };
  const auto occupancy = [](int percent) { return Json{{"est. achieved occupancy %", percent}}; };
  const std::string optimizer = "Optimizer.step#SGD.step";
  return {
      {"compute_bound", kernel_step(95), kernel_step(50)},
      {"kernel_drift", drifting(20), drifting(11)},
      {"tensor_cores_unused", gemm_step("ampere_sgemm_128x64_nn"), gemm_step("ampere_s16816gemm")},
      {"wide_arithmetic_on_cpu", two_operators("aten::mm", 50), two_operators("aten::mm", 10)},
      {"convolution_layout", two_operators("aten::mkldnn_convolution", 50),
       two_operators("aten::mkldnn_convolution", 10)},
      {"layout_conversions", kernel_step(50).kernel("nchwToNhwcKernel", 55, 60, 20),
       kernel_step(50).kernel("nchwToNhwcKernel", 55, 60, 1)},
      {"unfilled_device", kernel_step(90, blocks(0.2)), kernel_step(90, blocks(2))},
      {"low_occupancy", kernel_step(90, occupancy(10)), kernel_step(90, occupancy(50))},
      {"gather_backward", two_operators("aten::gather", 10), two_operators("aten::gather", 1)},
      {"gradient_fills", zero_grad_step(5), zero_grad_step(0.5)},
      {"optimizer_step", step_with("user_annotation", optimizer, 20),
       step_with("user_annotation", optimizer, 10)},
      {"small_operators", many_operators(100, 5), many_operators(10, 50)},
  };
}

// A GPU of 1,000 bytes on which tensors take so much at the end of each step.
TraceText memory_at_ends(const std::vector<int>& bytes) {
  TraceText text;
  for (int i = 0; i < static_cast<int>(bytes.size()); ++i) {
    text.step(i, i * 100, 100).kernel("a", i * 100, i * 100 + 1, 10);
    text.memory(i * 100 + 80, 10, bytes[static_cast<std::size_t>(i)], 1, 0);
  }
  return text;
}

TraceText reserved(int bytes) {
  TraceText text = kernel_step(50).allocated(700);
  text.json()["traceEvents"].back()["args"]["Total Reserved"] = bytes;
  return text;
}

TraceText host_blocks(int count) {
  TraceText text = step_with("cpu_op", "aten::mm", 50);
  for (int i = 0; i < count; ++i)
    text.memory(10 + i, 200 << 10, 200 << 10);
  return text;
}

TraceText data_parallel(int devices) {
  TraceText text = step_with("cpu_op", "DataParallel.forward", 50);
  for (int device = 0; device < devices; ++device)
    text.kernel("a", 1, 10, 50, {{"device", device}});
  return text;
}

RuleCases other_cases() {
  const auto through = [](const std::string& collective) {
    return gpu_step_with("cpu_op", "DistributedDataParallel.forward", 20)
        .event("user_annotation", collective, 30, 5);
  };
  return {
      {"memory_full", kernel_step(50).allocated(950), kernel_step(50).allocated(700)},
      {"memory_unused", kernel_step(50).allocated(300), kernel_step(50).allocated(700)},
      {"memory_growth", memory_at_ends({100, 100, 110, 120, 130, 140}),
       memory_at_ends({100, 140, 100, 140, 100, 140})},
      {"memory_fragmented", reserved(950), reserved(800)},
      {"large_host_blocks", host_blocks(5), host_blocks(3)},
      {"communication", kernel_step(20, Json::object(), "ncclDevKernel_AllReduce"),
       kernel_step(5, Json::object(), "ncclDevKernel_AllReduce")},
      {"data_parallel", data_parallel(2), data_parallel(1)},
      {"without_nccl", through("gloo:all_reduce"), through("nccl:all_reduce")},
      {"slow_first_step", steps_of({400, 100, 100, 100, 100}), steps_of({200, 100, 100, 100, 100})},
      {"profiler_overhead", step_with("overhead", "Buffer Flush", 20),
       step_with("overhead", "Buffer Flush", 5)},
  };
}

RuleCases all_cases() {
  RuleCases all = input_cases();
  for (const RuleCases& more : {device_cases(), arithmetic_cases(), other_cases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

TraceAnalysis analysis_for_rules(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return analyze(*trace);
}

const Finding* find(const TraceAnalysis& analysis, const std::string& rule) {
  const auto found = std::ranges::find(analysis.findings, rule, [](const Finding& finding) {
    return std::string(finding.rule->id);
  });
  return found == analysis.findings.end() ? nullptr : &*found;
}

// That a rule fires shows that its signal exists, and that its evidence is complete that those in it do.
TEST(EveryRule, FiresOnWhatItIsAbout) {
  for (const RuleCase& one : all_cases()) {
    const TraceAnalysis analysis = analysis_for_rules(one.fires);
    const Finding* finding = find(analysis, one.rule);
    EXPECT_NE(finding, nullptr) << one.rule;
    if (finding == nullptr) continue;
    EXPECT_THAT(finding->evidence, Not(HasSubstr("unknown share"))) << one.rule;
  }
}

// Not because nothing is known: the signal is there.
TEST(EveryRule, IsSilentWhereAllIsRight) {
  for (const RuleCase& one : all_cases()) {
    const TraceAnalysis analysis = analysis_for_rules(one.quiet);
    EXPECT_EQ(find(analysis, one.rule), nullptr) << one.rule;
    const auto rule = std::ranges::find(rules(), std::string(one.rule),
                                        [](const Rule& known) { return known.id; });
    ASSERT_NE(rule, rules().end()) << one.rule;
    EXPECT_TRUE(analysis.signals.contains(rule->signal)) << one.rule;
  }
}

double before_crop(const TraceText& text) {
  return analysis_for_rules(text).signals.at("loading.before_crop_share_ratio");
}

// Their crop was before what is kept of them, and none of what follows it is before another sample's.
TEST(LoaderOrder, SamplesOutOfACacheHaveNothingBeforeTheirCrop) {
  const std::vector<Transform> kept = {{"random_flip", 10}, {"normalize", 10}};
  std::vector<Transform> parts = kept;
  for (const Transform& part : std::vector<Transform>{
           {"read_sample", 5}, {"decode_jpeg", 10}, {"center_crop", 1}, kept[0], kept[1]}) {
    parts.push_back(part);
  }
  EXPECT_EQ(before_crop(made_by({parts})), 0.0);
  parts.insert(parts.begin() + 4, {"rgb_to_yuv", 10});
  EXPECT_NEAR(before_crop(made_by({parts})), 10.0 / 66, 1e-9) << "of the one that is read";

  TraceText whole = made_by({});
  whole.event("user_annotation", "make_samples", 0, 40, Json::object(), 10);  // copies what is kept
  whole.event("user_annotation", "make_samples", 40, 20, Json::object(), 10);
  whole.event("user_annotation", "read_sample", 40, 10, Json::object(), 10);
  whole.event("user_annotation", "center_crop", 50, 10, Json::object(), 10);
  EXPECT_EQ(before_crop(whole), 0.0);
}

TEST(EveryRule, HasACase) {
  std::set<std::string> tested = {"straggler"};  // needs several ranks: findings_test.cpp
  for (const RuleCase& one : all_cases())
    EXPECT_TRUE(tested.insert(one.rule).second) << one.rule;
  for (const Rule& rule : rules())
    EXPECT_TRUE(tested.contains(rule.id)) << rule.id;
  EXPECT_EQ(tested.size(), rules().size());
}

}  // namespace
}  // namespace autotuned::analysis
