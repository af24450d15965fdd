// SPDX-License-Identifier: Apache-2.0
// A trace of a job on a GPU. Skipped where there is none.
#include <gmock/gmock.h>

#include <set>

#include "base/process/call_filter.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {
namespace {

using testing::IsEmpty;
using traces::EventKind;

TEST(GpuTrace, HoldsWhatTheGpuDid) {
  const Devices devices = open_devices();
  if (!devices.cuda_reason.empty()) GTEST_SKIP() << devices.cuda_reason;
  const Folder folder;
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.device = "cuda";
  auto job = Job::load(recipe, starting(recipe), test_machine(), devices);
  ASSERT_TRUE(job) << job.error().message();
  const auto file = folder / "a.pt.trace.json.gz";
  const JobTrace told =
      value_of((*job)->trace({.file = file, .warmup = 3, .active = 5, .repeat = 2}, never));
  EXPECT_THAT(told.notes, IsEmpty());
  const auto trace = traces::read_trace(file);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_THAT(trace->damage, IsEmpty());
  EXPECT_THAT(trace->notes, IsEmpty());

  const traces::Events& events = trace->events;
  std::set<std::int64_t> operators;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::cpu_operator) operators.insert(events.external_id[row]);
  }
  // A call of the runtime may go through one of the driver's that is recorded for those who call it themselves.
  std::set<std::int64_t> calls;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::runtime_call || events.correlation[row] <= 0) continue;
    EXPECT_TRUE(calls.insert(events.correlation[row]).second)
        << trace->name_of(row) << " is the same call as another one";
  }
  std::int64_t kernels = 0;
  std::int64_t copies = 0;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::copy) ++copies;
    if (events.kind[row] != EventKind::kernel) continue;
    ++kernels;
    EXPECT_TRUE(operators.contains(events.external_id[row])) << trace->name_of(row);
  }
  EXPECT_GE(copies, 10);    // a batch for each step
  EXPECT_GE(kernels, 100);  // ten for each, at the least
  const auto found = analysis::analyze(*trace);
  ASSERT_EQ(found.devices.size(), 1U);
  EXPECT_GT(found.devices[0].utilization, 0);
  EXPECT_LE(found.devices[0].utilization, 1);
  EXPECT_GT(found.devices[0].sm_efficiency.value_or(0), 0);
  EXPECT_GT(found.devices[0].achieved_occupancy_percent.value_or(0), 0);
  EXPECT_EQ(found.breakdown.unfinished_steps, 0);
}

// As in a trainer with an extension, which gives calls up after it has opened the GPU and before it makes a job. CUPTI
// begins after that.
TEST(GpuTrace, IsTheSameForATrainerThatHasGivenCallsUp) {
  const Devices devices = open_devices();
  if (!devices.cuda_reason.empty()) GTEST_SKIP() << devices.cuda_reason;
  const auto confined = refuse_calls_to_other_processes();
  ASSERT_TRUE(confined) << confined.error().message();
  const Folder folder;
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.device = "cuda";
  auto job = Job::load(recipe, starting(recipe), test_machine(), devices);
  ASSERT_TRUE(job) << job.error().message();
  value_of((*job)->prepare(with(starting(recipe), "layout.memory_format", "channels_last")));
  value_of((*job)->run_steps(3, never));
  const auto file = folder / "a.pt.trace.json.gz";
  const JobTrace told =
      value_of((*job)->trace({.file = file, .warmup = 3, .active = 5, .repeat = 2}, never));
  EXPECT_THAT(told.notes, IsEmpty());
  const auto trace = traces::read_trace(file);
  ASSERT_TRUE(trace) << trace.error().message();
  std::int64_t kernels = 0;
  for (const EventKind kind : trace->events.kind)
    kernels += kind == EventKind::kernel ? 1 : 0;
  EXPECT_GE(kernels, 100);
}

}  // namespace
}  // namespace autotuned::trainer
