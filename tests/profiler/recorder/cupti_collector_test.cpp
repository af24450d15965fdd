// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_collector.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "profiler/recorder/cupti_library.hpp"
#include "profiler/spans.hpp"
#include "tests/profiler/recorder/cupti_fake.hpp"

namespace autotuned::profiler {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;

constexpr CuptiOptions kSmall{.buffers = 4, .buffer_bytes = 8'192};

std::unique_ptr<CuptiCollector> open(FakeCupti& fake, const CuptiOptions& options = kSmall) {
  auto collector = CuptiCollector::open(fake, options);
  EXPECT_TRUE(collector) << collector.error().message();
  return collector ? std::move(*collector) : nullptr;
}

// CUPTI's time, now and a little later.
SampleTimes times_from_now(const FakeCupti& fake, std::uint64_t length_ns = 100) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto start =
      static_cast<std::uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec + fake.clock_shift_ns);
  return {start, start + length_ns};
}

FakeWork work_from_now(const FakeCupti& fake) {
  const SampleTimes call = times_from_now(fake);
  return {call, {call.end, call.end + 1'000}};
}

// Generated kernels, graphs and the copies of some libraries are asked of the driver itself.
TEST(CuptiCollector, RecordsWhatIsAskedOfTheDriver) {
  FakeCupti fake;
  const auto collector = open(fake);
  const auto all = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
                    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
                    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
                    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
                    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
                    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz,
                    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
                    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz};
  ASSERT_TRUE(collector->enable());
  for (const CUpti_driver_api_trace_cbid id : all)
    EXPECT_TRUE(fake.records(id)) << id;
  // Which cuDNN calls for each of its kernels.
  EXPECT_FALSE(fake.records(CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState));
  collector->disable();
  for (const CUpti_driver_api_trace_cbid id : all)
    EXPECT_FALSE(fake.records(id)) << id;
}

TEST(CuptiCollector, RecordsWhatTheGpuDoesFromRestartToTake) {
  FakeCupti fake;
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  EXPECT_EQ(fake.thread_id_type(), CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  EXPECT_TRUE(fake.wants_zeroed_buffers());
  fake.launch("warm-up", work_from_now(fake));
  collector->restart();

  const std::int64_t before_ns = now_ns();
  fake.copy(CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, 64, work_from_now(fake));
  fake.launch("kernel", work_from_now(fake));
  fake.fill(32, work_from_now(fake));
  fake.synchronize(times_from_now(fake));
  fake.overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, times_from_now(fake));
  const DeviceTimeline timeline = collector->take();
  const std::int64_t after_ns = now_ns();

  ASSERT_THAT(timeline.kernels, SizeIs(1));
  EXPECT_EQ(timeline.names[timeline.kernels[0].name], "kernel");
  EXPECT_THAT(timeline.copies, SizeIs(1));
  EXPECT_THAT(timeline.fills, SizeIs(1));
  EXPECT_THAT(timeline.waits, SizeIs(1));
  EXPECT_THAT(timeline.overheads, SizeIs(1));
  ASSERT_THAT(timeline.calls, SizeIs(4));
  EXPECT_EQ(timeline.calls[0].thread, ::gettid());
  // On our clock, which CUPTI's is 50 years apart from.
  constexpr std::int64_t kSlackNs = 1'000'000'000;
  EXPECT_GE(timeline.kernels[0].start_ns, before_ns - kSlackNs);
  EXPECT_LE(timeline.kernels[0].start_ns, after_ns + kSlackNs);
  EXPECT_EQ(timeline.losses, DeviceLosses{});
  EXPECT_THAT(collector->notes(), IsEmpty());

  // Once more, in the same session.
  fake.launch("again", work_from_now(fake));
  const DeviceTimeline second = collector->take();
  ASSERT_THAT(second.kernels, SizeIs(1));
  EXPECT_EQ(second.names[second.kernels[0].name], "again");
}

TEST(CuptiCollector, RecordsOnlyWhileEnabled) {
  FakeCupti fake;
  const auto collector = open(fake);
  EXPECT_THAT(fake.kinds(), IsEmpty());
  fake.launch("before", work_from_now(fake));
  ASSERT_TRUE(collector->enable());
  EXPECT_THAT(fake.kinds(), AllOf(IsSupersetOf({int{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL},
                                                int{CUPTI_ACTIVITY_KIND_RUNTIME},
                                                int{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION}}),
                                  // It would make kernels wait for each other.
                                  Not(Contains(int{CUPTI_ACTIVITY_KIND_KERNEL}))));
  collector->restart();
  fake.launch("inside", work_from_now(fake));
  collector->disable();
  EXPECT_THAT(fake.kinds(), IsEmpty());
  fake.launch("after", work_from_now(fake));
  EXPECT_THAT(collector->take().kernels, SizeIs(1));
  ASSERT_TRUE(collector->enable());
  collector->restart();
  fake.launch("inside again", work_from_now(fake));
  EXPECT_THAT(collector->take().kernels, SizeIs(1));
}

TEST(CuptiCollector, TellsCuptiOfOperatorsAndSpans) {
  FakeCupti fake;
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  collector->restart();
  collector->enter_span(scope_of_span(2));
  collector->enter_operator(scope_of_operator(0, 4));
  collector->enter_operator(scope_of_operator(0, 5));
  fake.launch("inner", work_from_now(fake));
  collector->leave_operator();
  fake.launch("outer", work_from_now(fake));
  std::jthread([&] { fake.launch("elsewhere", work_from_now(fake)); }).join();
  collector->leave_operator();
  fake.launch("none", work_from_now(fake));
  collector->leave_span();
  EXPECT_EQ(fake.open_scopes(), 0);
  const DeviceTimeline timeline = collector->take();
  ASSERT_THAT(timeline.kernels, SizeIs(4));
  EXPECT_EQ(timeline.kernels[0].operation, scope_of_operator(0, 5));
  EXPECT_EQ(timeline.kernels[0].span, scope_of_span(2));
  EXPECT_EQ(timeline.kernels[1].operation, scope_of_operator(0, 4));
  EXPECT_EQ(timeline.kernels[2].operation, 0U);
  EXPECT_EQ(timeline.kernels[2].span, 0U);
  EXPECT_EQ(timeline.kernels[3].operation, 0U);
  EXPECT_EQ(timeline.kernels[3].span, scope_of_span(2));
  EXPECT_EQ(timeline.calls[1].operation, scope_of_operator(0, 4));
}

TEST(CuptiCollector, KnowsOperatorsByTheirNumbers) {
  const ScopeId scope = scope_of_operator(3, 123'456'789);
  EXPECT_NE(scope_of_operator(0, 0), 0U);
  EXPECT_EQ(thread_of_scope(scope), 3U);
  EXPECT_EQ(event_of_scope(scope), 123'456'789U);
}

TEST(CuptiCollector, ReadsBuffersWhileTheyFill) {
  FakeCupti fake;
  // 4 buffers of 8 KiB take 128 launches at a time.
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  collector->restart();
  std::int64_t launched = 0;
  DeviceLosses losses;
  std::int64_t kept = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100; ++i, ++launched)
      fake.launch("k", work_from_now(fake));
    const DeviceTimeline timeline = collector->take();
    kept += static_cast<std::int64_t>(timeline.kernels.size() + timeline.calls.size());
    losses.dropped += timeline.losses.dropped;
  }
  EXPECT_EQ(kept, 2 * launched);
  EXPECT_EQ(losses.dropped, 0);
  EXPECT_FALSE(fake.found_dirty_buffer());
}

TEST(CuptiCollector, CountsWhatFoundNoBuffer) {
  FakeCupti fake;
  const auto collector = open(fake, {.buffers = 1, .buffer_bytes = 4'096});
  ASSERT_TRUE(collector->enable());
  collector->restart();
  constexpr std::int64_t kLaunches = 5'000;
  for (std::int64_t i = 0; i < kLaunches; ++i)
    fake.launch("k", work_from_now(fake));
  const DeviceTimeline timeline = collector->take();
  const auto kept = static_cast<std::int64_t>(timeline.kernels.size() + timeline.calls.size());
  EXPECT_GT(kept, 0);
  EXPECT_EQ(kept + timeline.losses.dropped, 2 * kLaunches);
}

TEST(CuptiCollector, TakesRecordsOfAThousandThreads) {
  constexpr int kThreads = 1'000;
  FakeCupti fake;
  const auto collector = open(fake, {.buffers = 16, .buffer_bytes = 65'536});
  ASSERT_TRUE(collector->enable());
  collector->restart();
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&fake, &collector, t] {
        for (std::size_t i = 0; i < 3; ++i) {
          collector->enter_operator(scope_of_operator(t, i));
          fake.launch("k", work_from_now(fake));
          collector->leave_operator();
        }
      });
    }
  }
  const DeviceTimeline timeline = collector->take();
  const auto kept = timeline.kernels.size() + timeline.calls.size();
  // An operator's own record may be among those that were dropped.
  EXPECT_LE(kept, 6U * kThreads);
  EXPECT_GE(static_cast<std::int64_t>(kept) + timeline.losses.dropped, 6 * kThreads);
  if (timeline.losses.dropped == 0) {
    for (const DeviceKernel& kernel : timeline.kernels)
      EXPECT_LT(thread_of_scope(kernel.operation), std::size_t{kThreads});
  }
  EXPECT_EQ(fake.open_scopes(), 0);
}

TEST(CuptiCollector, NamesWhoHoldsCupti) {
  FakeCupti fake;
  fake.holder = "CUPTI for Kineto";
  const auto collector = CuptiCollector::open(fake);
  ASSERT_FALSE(collector);
  EXPECT_EQ(collector.error().kind, ErrorKind::busy);
  EXPECT_THAT(collector.error().what,
              HasSubstr("another subscriber, CUPTI for Kineto, holds CUPTI"));
  fake.holder.clear();
  EXPECT_TRUE(CuptiCollector::open(fake));
}

TEST(CuptiCollector, LeavesCuptiToOthersWhenItIsGone) {
  FakeCupti fake;
  {
    const auto first = open(fake);
    ASSERT_TRUE(first->enable());
    fake.launch("k", work_from_now(fake));
    EXPECT_FALSE(CuptiCollector::open(fake));
    EXPECT_TRUE(fake.has_subscriber());
  }
  EXPECT_FALSE(fake.has_subscriber());
  EXPECT_THAT(fake.kinds(), IsEmpty());
  const auto second = open(fake);
  ASSERT_TRUE(second->enable());
  second->restart();
  fake.launch("k", work_from_now(fake));
  EXPECT_THAT(second->take().kernels, SizeIs(1));
}

// Between take() and disable() CUPTI may ask for another buffer.
TEST(CuptiCollector, TakesBackItsBuffersWhenItIsDisabledBeforeItGoes) {
  FakeCupti fake;
  {
    const auto first = open(fake);
    ASSERT_TRUE(first->enable());
    fake.launch("taken", work_from_now(fake));
    EXPECT_THAT(first->take().kernels, SizeIs(1));
    fake.launch("late", work_from_now(fake));
    first->disable();
  }
  const auto second = open(fake);
  ASSERT_TRUE(second->enable());
  second->restart();
  fake.launch("k", work_from_now(fake));
  EXPECT_THAT(second->take().kernels, SizeIs(1));
  EXPECT_THAT(second->notes(), IsEmpty());
}

TEST(CuptiCollector, SaysThatThereIsNoDriver) {
  FakeCupti fake;
  fake.with_driver = false;
  const auto collector = CuptiCollector::open(fake);
  ASSERT_FALSE(collector);
  EXPECT_EQ(collector.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(collector.error().message(), "no NVIDIA driver");
}

TEST(CuptiCollector, SaysSoOfNvidiasLibraryOnAMachineWithoutGpu) {
  const auto library = open_cupti(AUTOTUNED_CUPTI_LIBRARY);
  if (!library) GTEST_SKIP() << library.error().message();
  if (::access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "there is a driver";
  const auto collector = CuptiCollector::open(**library);
  ASSERT_FALSE(collector);
  EXPECT_EQ(collector.error().message(), "no NVIDIA driver");
}

TEST(CuptiCollector, DoesWithoutWhatCuptiRefuses) {
  FakeCupti fake;
  fake.refused_kinds = {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION};
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  EXPECT_THAT(collector->notes(),
              ElementsAre(HasSubstr("CUPTI does not record synchronisations: CUPTI_ERROR")));
  collector->disable();
  ASSERT_TRUE(collector->enable());
  EXPECT_THAT(collector->notes(), SizeIs(1));
}

TEST(CuptiCollector, DoesNotRecordWithoutKernels) {
  FakeCupti fake;
  fake.refused_kinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
  const auto collector = open(fake);
  const auto enabled = collector->enable();
  ASSERT_FALSE(enabled);
  EXPECT_THAT(enabled.error().what, HasSubstr("CUPTI refuses to record kernels"));
  EXPECT_THAT(fake.kinds(), IsEmpty());
}

TEST(CuptiCollector, FitsAClockThatIsNotTheSystems) {
  FakeCupti fake;
  fake.clock_shift_ns = -7'000'000'000'000;
  const auto collector = open(fake);
  EXPECT_THAT(collector->notes(), ElementsAre(HasSubstr("not the system's")));
  ASSERT_TRUE(collector->enable());
  collector->restart();
  const std::int64_t before_ns = now_ns();
  fake.launch("k", work_from_now(fake));
  const DeviceTimeline timeline = collector->take();
  ASSERT_THAT(timeline.kernels, SizeIs(1));
  EXPECT_NEAR(static_cast<double>(timeline.kernels[0].start_ns - before_ns), 0, 60e9);
}

TEST(CuptiCollector, NoticesThatTheClockWasSet) {
  FakeCupti fake;
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  collector->restart();
  fake.clock_shift_ns = 3'600'000'000'000;
  EXPECT_THAT(collector->take().kernels, IsEmpty());
  EXPECT_THAT(collector->notes(), Contains(HasSubstr("clock was set while the GPU was recorded")));
}

TEST(CuptiCollector, RefusesAClockThatDoesNotTell) {
  FakeCupti fake;
  fake.tells_time = false;
  const auto collector = CuptiCollector::open(fake);
  ASSERT_FALSE(collector);
  EXPECT_EQ(collector.error().what, "CUPTI reports no time");
  EXPECT_FALSE(fake.has_subscriber());
}

TEST(CuptiCollector, DoesNotHangWithCupti) {
  auto fake = std::make_unique<FakeCupti>();
  {
    const auto collector = open(
        *fake, {.buffers = 2, .buffer_bytes = 4'096, .flush_limit = std::chrono::milliseconds(1)});
    ASSERT_TRUE(collector->enable());
    fake->launch("k", work_from_now(*fake));
    fake->hold_flush();
    const DeviceTimeline timeline = collector->take();
    EXPECT_THAT(timeline.kernels, IsEmpty());
    EXPECT_THAT(collector->notes(),
                ElementsAre(HasSubstr("did not hand over its buffers within 1 ms")));
    collector->restart();  // asks no more
    EXPECT_THAT(collector->take().kernels, IsEmpty());
  }
  // What it holds comes back when nobody is there any more. The thread may only now begin.
  fake->wait_until_flushing();
  fake->release_flush();
  fake->wait_until_flushed();
}

TEST(CuptiCollector, SaysThatCuptiFailed) {
  FakeCupti fake;
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  fake.fail_fatally();
  EXPECT_THAT(collector->notes(), ElementsAre(HasSubstr("CUPTI failed and stopped")));
}

TEST(CuptiCollector, NoticesBuffersOfOthers) {
  FakeCupti fake;
  const auto collector = open(fake);
  ASSERT_TRUE(collector->enable());
  CUpti_BuffersCallbackCompleteFunc completed = fake.completed_callback();
  std::uint8_t other = 0;
  completed(nullptr, 0, &other, 1, 1);
  EXPECT_THAT(collector->notes(), ElementsAre(HasSubstr("another profiler in this process")));
}

}  // namespace
}  // namespace autotuned::profiler
