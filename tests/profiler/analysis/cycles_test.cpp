// SPDX-License-Identifier: Apache-2.0
// Recordings of several cycles (`--repeat`): what lies between two of them was not recorded.
#include <gmock/gmock.h>

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

Profile profile_of_cycles(int count) {
  TraceText text;
  for (int cycle = 0; cycle < count; ++cycle)
    add_cycle(text, cycle * 2'000'000, 3 + cycle * 20);
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return profile_of(*trace, Depth::views);
}

TEST(Cycles, AreMeasuredAsOneIs) {
  const Profile one = profile_of_cycles(1);
  const Profile two = profile_of_cycles(2);
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
  const Signals after = signals();
  for (const char* name : {"operators.scalar_read_ratio", "gradients.fill_ratio",
                           "device.utilization_ratio", "device.launch_wait_ratio"})
    EXPECT_DOUBLE_EQ(after.at(name), before.at(name)) << name;
  EXPECT_LT(after.at("device.longest_gap_ns"), kStepUs * 1000);
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
