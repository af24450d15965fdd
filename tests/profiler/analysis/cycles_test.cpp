// SPDX-License-Identifier: Apache-2.0
// Recordings of several cycles (`--repeat`): what lies between two of them was not recorded.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "profiler/analysis/profile.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

constexpr int kSteps = 3;
constexpr int kStepUs = 100;

// Three steps from `begin_us` on, and the profiler's own wait for the device.
void add_cycle(TraceText& text, int begin_us, int first_number) {
  const Json launch = {{"blocks per SM", 0.5}, {"est. achieved occupancy %", 50}};
  for (int i = 0; i < kSteps; ++i) {
    const int at = begin_us + i * kStepUs;
    text.step(first_number + i, at, kStepUs);
    text.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
               at, 10);
    text.event("cpu_op", "aten::mm", at + 10, 30);
    text.kernel("gemm", at + 12, at + 20, 30, launch);
    text.kernel("ncclDevKernel_AllReduce", at + 13, at + 40, 15, launch);
    text.kernel("relu", at + 60, at + 63, 20, launch);
    text.event("cuda_runtime", "cudaStreamSynchronize", at + 85, 10);
    text.memory(at + 30, 1 << 20, 1 << 20);
  }
  text.event("cuda_runtime", "cudaDeviceSynchronize", begin_us + kSteps * kStepUs + 10, 5000);
}

TraceProfile profile_of_cycles(int count) {
  TraceText text;
  for (int cycle = 0; cycle < count; ++cycle)
    add_cycle(text, cycle * 2'000'000, 3 + cycle * 20);
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return profile_of(*trace, Depth::views);
}

TEST(Cycles, AreMeasuredAsOneIs) {
  const TraceProfile one = profile_of_cycles(1);
  const TraceProfile two = profile_of_cycles(2);
  ASSERT_EQ(two.summary.breakdown.stretches.intervals().size(), 2U);
  for (const auto& [name, value] : one.summary.signals) {
    if (name == "steps_count") continue;
    ASSERT_TRUE(two.summary.signals.contains(name)) << name;
    EXPECT_NEAR(two.summary.signals.at(name), value, 1e-9 * (1 + std::abs(value))) << name;
  }
  ASSERT_EQ(two.summary.findings.size(), one.summary.findings.size());
  for (std::size_t i = 0; i < one.summary.findings.size(); ++i)
    EXPECT_EQ(two.summary.findings[i].evidence, one.summary.findings[i].evidence);

  const DeviceUse& expected = one.summary.devices.at(0);
  const DeviceUse& use = two.summary.devices.at(0);
  EXPECT_NEAR(use.utilization, expected.utilization, 1e-9);
  EXPECT_NEAR(use.sm_efficiency.value(), expected.sm_efficiency.value(), 1e-9);
  EXPECT_EQ(two.communication.window_ns, 2 * one.communication.window_ns);
  EXPECT_EQ(two.communication.communication_ns, 2 * one.communication.communication_ns);
  EXPECT_EQ(two.communication.overlapped_ns, 2 * one.communication.overlapped_ns);
  ASSERT_EQ(two.timelines.rows.size(), one.timelines.rows.size());
  for (std::size_t i = 0; i < one.timelines.rows.size(); ++i) {
    const TimelineRow& row = two.timelines.rows[i];
    EXPECT_NEAR(row.busy_ratio, one.timelines.rows[i].busy_ratio, 1e-9) << row.name;
    EXPECT_LE(row.longest_gap.length_ns(), kStepUs * 1000) << row.name;
  }
}

// Neither calls of the host nor work of the device.
TEST(Cycles, LeaveOutWhatIsBetween) {
  TraceText text;
  add_cycle(text, 0, 3);
  add_cycle(text, 2'000'000, 23);
  const auto signals = [&] {
    const auto trace = read_trace_text(text.text());
    EXPECT_TRUE(trace);
    return analyze(*trace).signals;
  };
  const Signals before = signals();
  text.event("cpu_op", "aten::_local_scalar_dense", 500'000, 9000);
  text.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", 600'000, 2000);
  text.event("cpu_op", "aten::zero_", 600'100, 50);
  text.kernel("warm_up", 700'000, 700'100, 40);
  // Operators with work on the device, and kernels of kinds that have signals of their own.
  text.event("cpu_op", "aten::convolution", 800'000, 5000, {{"External id", 91}});
  text.kernel("nchwToNhwcKernel", 800'010, 801'000, 4000, {{"External id", 91}});
  text.event("cpu_op", "aten::gather", 810'000, 5000, {{"External id", 92}});
  text.kernel("sm90_xmma_gemm_f16f16", 810'010, 811'000, 4000, {{"External id", 92}});
  for (int i = 0; i < 30; ++i)
    text.kernel("gemm", 820'000 + i * 100, 820'050 + i * 100, 2.0 + i);
  const Signals after = signals();
  EXPECT_EQ(after, before);
  EXPECT_LT(after.at("device.longest_gap_ns"), kStepUs * 1000);
}

// On a job without a device, where shares are of the host's time. The tables show the warm-up, too.
TEST(Cycles, LeaveOutTheWarmUpOfTheHost) {
  TraceText text;
  text.json()["deviceProperties"] = Json::array();
  text.step(5, 1000, 100).event("cpu_op", "aten::mm", 1000, 60);
  text.event("cpu_op", "aten::gather", 1060, 20).event("cpu_op", "aten::conv2d", 1080, 20);
  const auto analysis_of_it = [&] {
    const auto trace = read_trace_text(text.text());
    EXPECT_TRUE(trace);
    return analyze(*trace);
  };
  const TraceAnalysis before = analysis_of_it();
  EXPECT_DOUBLE_EQ(before.signals.at("operators.gather_share_ratio"), 0.2);
  EXPECT_DOUBLE_EQ(before.signals.at("operators.convolution_share_ratio"), 0.2);
  text.event("cpu_op", "aten::gather", 0, 500).event("cpu_op", "aten::conv2d", 500, 400);
  for (int i = 0; i < 20; ++i)
    text.event("cpu_op", "aten::add", 900 + 2 * i, 1);
  const TraceAnalysis after = analysis_of_it();
  EXPECT_EQ(after.signals, before.signals);
  const auto gather = std::ranges::find(after.operators, "aten::gather", &OperatorRow::name);
  ASSERT_NE(gather, after.operators.end());
  EXPECT_EQ(gather->host_total_ns, 520'000);
}

// What reaches into a step counts as far as it does, its own time without what it calls.
TEST(Cycles, CountTheInnerPartOfWhatReachesOut) {
  TraceText text;
  text.step(5, 100, 100);
  // On another thread: 20 inside, of which 10 are its own, and what it calls.
  text.event("cpu_op", "aten::gather", 50, 70, Json::object(), 2);
  text.event("cpu_op", "aten::convolution", 110, 10, Json::object(), 2);
  text.event("cpu_op", "aten::mm", 120, 60);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const Signals signals = analyze(*trace).signals;
  EXPECT_DOUBLE_EQ(signals.at("operators.gather_share_ratio"), 20.0 / 80);
  EXPECT_DOUBLE_EQ(signals.at("operators.convolution_share_ratio"), 10.0 / 80);
  EXPECT_DOUBLE_EQ(signals.at("operators.gemm_conv_share_ratio"), 70.0 / 80);
}

// Steps that follow one another are one stretch, with what the loop does between them.
TEST(Cycles, ConsecutiveStepsAreOne) {
  TraceText text;
  text.step(9, 0, 80).step(10, 100, 80).step(11, 200, 80).step(30, 900, 80);
  text.event("cpu_op", "aten::mm", 0, 10);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  EXPECT_THAT(analyze(*trace).breakdown.stretches.intervals(),
              testing::ElementsAre(Interval{0, 280'000}, Interval{900'000, 980'000}));
}

}  // namespace
}  // namespace autotuned::analysis
