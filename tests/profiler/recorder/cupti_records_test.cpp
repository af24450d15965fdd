// SPDX-License-Identifier: Apache-2.0
// Buffers made by hand, walked by the fake and by NVIDIA's own library, which needs no GPU for it.
#include "profiler/recorder/cupti_records.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "profiler/recorder/cupti_library.hpp"
#include "tests/profiler/recorder/cupti_fake.hpp"

namespace autotuned::profiler {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kPlenty = 1'000'000;
constexpr auto kLaunch = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;

enum class Walker { fake, library };

class CuptiRecordsTest : public testing::TestWithParam<Walker> {
 protected:
  void SetUp() override {
    if (GetParam() == Walker::fake) return;
    const auto library = open_cupti(AUTOTUNED_CUPTI_LIBRARY);
    if (!library) GTEST_SKIP() << library.error().message();
    api_ = *library;
  }
  // One buffer, decoded.
  DeviceTimeline decoded(SampleBuffer& buffer, const RecordingClock& clock = {}) const {
    CuptiRecords records(*api_, kPlenty);
    records.add(buffer.data(), buffer.size());
    return records.take(clock);
  }

  FakeCupti fake_;
  CuptiApi* api_ = &fake_;
};

INSTANTIATE_TEST_SUITE_P(By, CuptiRecordsTest, testing::Values(Walker::fake, Walker::library),
                         [](const auto& walker) {
                           return walker.param == Walker::fake ? "Fake" : "Library";
                         });

TEST_P(CuptiRecordsTest, HasAllOfAKernel) {
  auto kernel = sample_kernel("_Z4gemmPf", 5, {1'000, 3'000});
  kernel.deviceId = 1;
  kernel.contextId = 2;
  kernel.streamId = 20;
  kernel.gridX = 7;
  kernel.gridY = 3;
  kernel.gridZ = 2;
  kernel.blockX = 64;
  kernel.blockY = 2;
  kernel.staticSharedMemory = 1'024;
  kernel.dynamicSharedMemory = 49'152;
  kernel.shmemLimitConfig = CUPTI_FUNC_SHMEM_LIMIT_OPTIN;
  kernel.registersPerThread = 168;
  kernel.queued = 900;
  kernel.graphId = 4;
  kernel.graphNodeId = 17;
  const DeviceTimeline timeline = decoded(SampleBuffer().add(kernel), {.offset_ns = 100});
  ASSERT_THAT(timeline.kernels, SizeIs(1));
  const DeviceKernel& read = timeline.kernels[0];
  EXPECT_EQ(read.start_ns, 900);
  EXPECT_EQ(read.end_ns, 2'900);
  EXPECT_EQ(read.queued_ns, 800);
  EXPECT_EQ(timeline.names[read.name], "gemm(float*)");
  EXPECT_EQ(read.correlation, 5U);
  EXPECT_EQ(read.device, 1U);
  EXPECT_EQ(read.context, 2U);
  EXPECT_EQ(read.stream, 20U);
  EXPECT_THAT(read.grid, ElementsAre(7, 3, 2));
  EXPECT_THAT(read.block, ElementsAre(64, 2, 1));
  EXPECT_EQ(read.registers_per_thread, 168);
  EXPECT_EQ(read.static_shared_bytes, 1'024);
  EXPECT_EQ(read.dynamic_shared_bytes, 49'152);
  EXPECT_TRUE(read.opts_in_shared);
  EXPECT_EQ(read.graph, 4U);
  EXPECT_EQ(read.graph_node, 17U);
  EXPECT_EQ(timeline.losses, DeviceLosses{.without_call = 1});
}

TEST_P(CuptiRecordsTest, HasEveryKindOfRecord) {
  auto between = CUpti_ActivityMemcpyPtoP4{};
  between.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  between.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  between.bytes = 77;
  between.start = 50;
  between.end = 60;
  between.correlationId = 3;
  auto driver_call = sample_call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 11, 9, {80, 81});
  driver_call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  auto asks_nothing = sample_call(CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice, 11, 8, {78, 79});
  asks_nothing.kind = CUPTI_ACTIVITY_KIND_DRIVER;  // no launch: left out
  CUpti_ActivityContext3 other{};                  // nobody asked for it
  other.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  SampleBuffer buffer;
  buffer.add(sample_call(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, 10, 1, {10, 12}))
      .add(sample_copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
                       CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 4'096, 1, {13, 20}))
      .add(other)
      .add(sample_call(CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, 10, 2, {20, 22}))
      .add(sample_fill(512, 2, {30, 40}))
      .add(between)
      .add(sample_wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE,
                       static_cast<std::uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE), 4,
                       {60, 70}))
      .add(sample_overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, 12, {70, 75}))
      .add(asks_nothing)
      .add(driver_call);
  const DeviceTimeline timeline = decoded(buffer);
  ASSERT_THAT(timeline.copies, SizeIs(2));
  EXPECT_EQ(timeline.copies[0].direction, 1);
  EXPECT_EQ(timeline.copies[0].source, 2);  // pinned
  EXPECT_EQ(timeline.copies[0].destination, 3);
  EXPECT_EQ(timeline.copies[0].bytes, 4'096);
  EXPECT_EQ(timeline.copies[1].direction, 10);
  EXPECT_EQ(timeline.copies[1].bytes, 77);
  ASSERT_THAT(timeline.fills, SizeIs(1));
  EXPECT_EQ(timeline.fills[0].bytes, 512);
  EXPECT_EQ(timeline.fills[0].memory, 3);
  ASSERT_THAT(timeline.calls, SizeIs(3));
  EXPECT_EQ(timeline.names[timeline.calls[0].name], "cudaMemcpyAsync");
  EXPECT_EQ(timeline.calls[0].thread, 10);
  EXPECT_FALSE(timeline.calls[0].is_driver);
  EXPECT_EQ(timeline.names[timeline.calls[2].name], "cuLaunchKernel");
  EXPECT_TRUE(timeline.calls[2].is_driver);
  ASSERT_THAT(timeline.waits, SizeIs(1));
  EXPECT_EQ(timeline.waits[0].kind, 4U);
  EXPECT_EQ(timeline.waits[0].stream, kNoStream);
  ASSERT_THAT(timeline.overheads, SizeIs(1));
  EXPECT_EQ(timeline.overheads[0].thread, 12);
  EXPECT_EQ(timeline.losses, DeviceLosses{.without_call = 1});  // the copy between GPUs
}

TEST_P(CuptiRecordsTest, JoinsRecordsInWhateverOrder) {
  constexpr std::uint32_t kLaunches = 100;
  // Each piece is one record; a launch has four of them.
  std::vector<SampleBuffer> pieces;
  for (std::uint32_t i = 1; i <= kLaunches; ++i) {
    const std::uint64_t at = 1'000 * i;
    pieces.push_back(
        SampleBuffer().add(sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 10 * i, i)));
    pieces.push_back(
        SampleBuffer().add(sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 20 * i, i)));
    pieces.push_back(SampleBuffer().add(sample_call(kLaunch, 3, i, {at, at + 5})));
    pieces.push_back(SampleBuffer().add(sample_kernel("k", i, {at + 10, at + 20})));
  }
  std::mt19937 random(7);
  std::ranges::shuffle(pieces, random);
  CuptiRecords records(*api_, kPlenty);
  for (SampleBuffer& piece : pieces)
    records.add(piece.data(), piece.size());
  EXPECT_EQ(records.records(), 2 * kLaunches);  // calls and kernels
  const DeviceTimeline timeline = records.take({});
  ASSERT_THAT(timeline.kernels, SizeIs(kLaunches));
  ASSERT_THAT(timeline.calls, SizeIs(kLaunches));
  for (const DeviceKernel& kernel : timeline.kernels) {
    EXPECT_EQ(kernel.operation, 10U * kernel.correlation);
    EXPECT_EQ(kernel.span, 20U * kernel.correlation);
    EXPECT_EQ(kernel.start_ns, 1'000 * kernel.correlation + 10);
  }
  for (const HostCall& call : timeline.calls)
    EXPECT_EQ(call.operation, 10U * call.correlation);
  EXPECT_EQ(timeline.losses, DeviceLosses{});
}

TEST_P(CuptiRecordsTest, CopiesNamesOfKernels) {
  std::string name = "first";
  CuptiRecords records(*api_, kPlenty);
  SampleBuffer buffer;
  buffer.add(sample_kernel(name.c_str(), 1, {1, 2}))
      .add(sample_kernel(name.c_str(), 2, {3, 4}))
      .add(sample_kernel("other", 3, {5, 6}))
      .add(sample_kernel(nullptr, 4, {7, 8}));
  records.add(buffer.data(), buffer.size());
  name = "gone!";
  const DeviceTimeline timeline = records.take({});
  EXPECT_THAT(timeline.names, ElementsAre("first", "other", "unknown kernel"));
  EXPECT_EQ(timeline.kernels[0].name, timeline.kernels[1].name);
  // The next recording has names of its own.
  records.add(buffer.data(), buffer.size());
  EXPECT_THAT(records.take({}).names, ElementsAre("gone!", "other", "unknown kernel"));
}

TEST_P(CuptiRecordsTest, TakesNamesFromWhoKnowsThem) {
  const char* const pointer = reinterpret_cast<const char*>(0xdead0);  // of another process
  CuptiRecords records(*api_, kPlenty, [&](const char* asked) {
    return asked == pointer ? std::string_view("recorded") : std::string_view("?");
  });
  SampleBuffer buffer;
  buffer.add(sample_kernel(pointer, 1, {1, 2}));
  records.add(buffer.data(), buffer.size());
  EXPECT_THAT(records.take({}).names, ElementsAre("recorded"));
}

TEST_P(CuptiRecordsTest, LeavesOutWhatBeganBeforeTheRecording) {
  SampleBuffer buffer;
  for (std::uint32_t i = 1; i <= 4; ++i) {
    buffer.add(sample_call(kLaunch, 3, i, {100 * i, 100 * i + 1}))
        .add(sample_kernel("k", i, {100 * i + 50, 100 * i + 60}))
        .add(sample_overhead(CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, 3, {100 * i, 100 * i + 1}));
  }
  const DeviceTimeline timeline = decoded(buffer, {.from_ns = 300, .offset_ns = 10});
  EXPECT_THAT(timeline.kernels, SizeIs(2));
  EXPECT_THAT(timeline.calls, SizeIs(2));
  EXPECT_THAT(timeline.overheads, SizeIs(2));
  EXPECT_EQ(timeline.calls[0].start_ns, 290);
  EXPECT_EQ(timeline.losses, DeviceLosses{});
}

TEST_P(CuptiRecordsTest, CountsRecordsWithoutTimes) {
  SampleBuffer buffer;
  buffer.add(sample_kernel("k", 1, {0, 0}))
      .add(sample_kernel("k", 2, {500, 400}))
      .add(sample_kernel("k", 3, {1, UINT64_MAX}))
      .add(sample_fill(8, 4, {0, 0}))
      .add(sample_call(kLaunch, 3, 5, {0, 0}))
      .add(sample_kernel("k", 6, {500, 500}));
  const DeviceTimeline timeline = decoded(buffer);
  EXPECT_THAT(timeline.kernels, SizeIs(1));
  EXPECT_THAT(timeline.fills, IsEmpty());
  EXPECT_EQ(timeline.losses, (DeviceLosses{.untimed = 5, .without_call = 1}));
  EXPECT_THAT(to_sentences(timeline.losses),
              ElementsAre(HasSubstr("5 records of the GPU have no usable time"),
                          HasSubstr("1 event of the GPU belongs to no recorded call")));
}

// The clock of a device is brought to that of the host no better than by some microseconds.
TEST_P(CuptiRecordsTest, CountsWhatBeganBeforeItsLaunch) {
  SampleBuffer buffer;
  buffer.add(sample_call(kLaunch, 3, 1, {100'000, 100'010}))
      .add(sample_kernel("early", 1, {79'999, 101'100}))
      .add(sample_call(kLaunch, 3, 2, {200'000, 200'010}))
      .add(sample_kernel("as early as clocks are off", 2, {180'000, 202'100}));
  EXPECT_EQ(decoded(buffer, {.offset_ns = 500}).losses, DeviceLosses{.before_launch = 1});
}

TEST_P(CuptiRecordsTest, CountsWhatItHasNoRoomFor) {
  CuptiRecords records(*api_, 2);
  SampleBuffer buffer;
  for (std::uint32_t i = 1; i <= 5; ++i)
    buffer.add(sample_call(kLaunch, 3, i, {10, 11}));
  records.add(buffer.data(), buffer.size());
  const DeviceTimeline timeline = records.take({});
  EXPECT_THAT(timeline.calls, SizeIs(2));
  EXPECT_EQ(timeline.losses, DeviceLosses{.over_limit = 3});
  // There is room again.
  records.add(buffer.data(), buffer.size());
  EXPECT_THAT(records.take({}).calls, SizeIs(2));
}

TEST_P(CuptiRecordsTest, KeepsWhatComesBeforeATruncatedRecord) {
  // Wherever the buffer ends, what is whole is read and nothing behind the end is looked at.
  for (std::size_t cut = 0; cut < sizeof(CUpti_ActivityKernel10); ++cut) {
    SampleBuffer buffer;
    buffer.add(sample_call(kLaunch, 3, 1, {10, 11}))
        .add(sample_kernel("whole", 1, {20, 30}))
        .add(sample_kernel("cut", 2, {40, 50}))
        .cut(cut);
    const DeviceTimeline timeline = decoded(buffer);
    EXPECT_THAT(timeline.kernels, SizeIs(cut == 0 ? 2 : 1)) << cut;
    EXPECT_EQ(timeline.losses.damaged_buffers, cut == 0 ? 0 : 1) << cut;
    if (cut > 0) {
      EXPECT_THAT(timeline.losses.damage[0], HasSubstr("at byte 256 of ")) << cut;
    }
  }
}

TEST_P(CuptiRecordsTest, NamesARecordOfNoKind) {
  CUpti_ActivityAPI broken = sample_call(kLaunch, 3, 2, {20, 21});
  for (const std::uint32_t kind : {0U, 9'999U, 0x7fff'ffffU, 0xffff'ffffU}) {
    std::memcpy(&broken, &kind, sizeof(kind));
    SampleBuffer buffer;
    buffer.add(sample_call(kLaunch, 3, 1, {10, 11}))
        .add(broken)
        .add(sample_call(kLaunch, 3, 3, {30, 31}));
    const DeviceTimeline timeline = decoded(buffer);
    EXPECT_THAT(timeline.calls, SizeIs(1)) << kind;
    EXPECT_THAT(timeline.losses.damage,
                ElementsAre(HasSubstr("of no known kind at byte 40 of 120 (CUPTI_ERROR_")))
        << kind;
  }
}

// Found by fuzzing: a compiler may take an enumeration for one of its values.
TEST_P(CuptiRecordsTest, SurvivesNumbersThatNoEnumerationHas) {
  constexpr std::uint32_t kNumber = 0xfa94'0000U;
  auto kernel = sample_kernel("k", 1, {10, 20});
  auto wait = sample_wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN, 7, 2, {30, 40});
  auto overhead = sample_overhead(CUPTI_ACTIVITY_OVERHEAD_UNKNOWN, 12, {50, 60});
  auto external = sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN, 9, 1);
  const auto put = [&](auto& record, std::size_t offset) {
    std::memcpy(reinterpret_cast<std::uint8_t*>(&record) + offset, &kNumber, sizeof(kNumber));
  };
  put(kernel, offsetof(CUpti_ActivityKernel10, shmemLimitConfig));
  put(wait, offsetof(CUpti_ActivitySynchronization2, type));
  put(overhead, offsetof(CUpti_ActivityOverhead3, overheadKind));
  put(overhead, offsetof(CUpti_ActivityOverhead3, objectKind));
  put(external, offsetof(CUpti_ActivityExternalCorrelation, externalKind));
  SampleBuffer buffer;
  buffer.add(external).add(kernel).add(wait).add(overhead);
  const DeviceTimeline timeline = decoded(buffer);
  ASSERT_THAT(timeline.kernels, SizeIs(1));
  EXPECT_FALSE(timeline.kernels[0].opts_in_shared);
  EXPECT_EQ(timeline.kernels[0].operation, 0U);
  EXPECT_EQ(timeline.waits.at(0).kind, kNumber);
  EXPECT_EQ(timeline.overheads.at(0).kind, kNumber);
  EXPECT_EQ(timeline.overheads.at(0).thread, 0);
}

TEST_P(CuptiRecordsTest, TellsTheFirstDamageAndCountsAll) {
  CuptiRecords records(*api_, kPlenty);
  for (int i = 0; i < 100; ++i) {
    SampleBuffer buffer;
    buffer.add(sample_call(kLaunch, 3, 1, {10, 11})).cut(8);
    records.add(buffer.data(), buffer.size());
  }
  const DeviceTimeline timeline = records.take({});
  EXPECT_EQ(timeline.losses.damaged_buffers, 100);
  EXPECT_THAT(timeline.losses.damage, SizeIs(8));
}

TEST_P(CuptiRecordsTest, OfAnEmptyBufferIsNothing) {
  SampleBuffer buffer;
  buffer.add(sample_call(kLaunch, 3, 1, {10, 11}));
  CuptiRecords records(*api_, kPlenty);
  records.add(buffer.data(), 0);
  EXPECT_EQ(records.take({}).losses, DeviceLosses{});
}

TEST(CuptiRecords, GivesBackMemoryOfOverheads) {
  FakeCupti fake;
  auto overhead = sample_overhead(CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, 3, {10, 20});
  overhead.overheadData = &fake;
  SampleBuffer buffer;
  buffer.add(overhead);
  CuptiRecords records(fake, kPlenty);
  records.add(buffer.data(), buffer.size());
  EXPECT_EQ(fake.released, 1);
}

TEST(CuptiLibrary, SaysWhyItIsNotThere) {
  const auto missing = open_cupti("libautotuned-no-such-cupti.so.13");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(missing.error().message(),
              AllOf(HasSubstr("CUPTI is not installed"), HasSubstr("no-such-cupti"),
                    HasSubstr("scripts/setup")));
  const auto other = open_cupti("libz.so.1");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("it is not CUPTI 13: it lacks cuptiGetVersion"));
}

TEST(CuptiLibrary, KnowsTheNamesOfCalls) {
  const auto library = open_cupti(AUTOTUNED_CUPTI_LIBRARY);
  if (!library) GTEST_SKIP() << library.error().message();
  const char* name = nullptr;
  ASSERT_EQ((*library)->get_callback_name(CUPTI_CB_DOMAIN_RUNTIME_API, kLaunch, &name),
            CUPTI_SUCCESS);
  EXPECT_STREQ(name, "cudaLaunchKernel_v7000");
  EXPECT_STREQ((*library)->result_text(CUPTI_ERROR_INVALID_KIND), "CUPTI_ERROR_INVALID_KIND");
  EXPECT_EQ(*open_cupti(AUTOTUNED_CUPTI_LIBRARY), *library);
}

}  // namespace
}  // namespace autotuned::profiler
