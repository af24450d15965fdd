// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/memory.hpp"

#include <gmock/gmock.h>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::UnorderedElementsAre;

constexpr Interval kAlways{0, 1'000'000'000};

MemoryUse use_of(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return memory_use(*trace, call_tree(*trace, launches_of(*trace), CallTreeOf::everything));
}

// ones() makes room by empty() and takes something for itself; something is given back outside of all.
TraceText ones_of_thousand_bytes() {
  TraceText text;
  text.event("cpu_op", "aten::ones", 10, 40);
  text.event("cpu_op", "aten::empty", 15, 10);
  text.event("cpu_op", "aten::fill_", 30, 10);
  text.memory(20, 1000, 1000).memory(35, 24, 1024).memory(36, -24, 1000).memory(80, -1000, 0);
  return text;
}

TEST(MemoryTable, NamesWhoRoomIsMadeFor) {
  EXPECT_THAT(
      memory_table(use_of(ones_of_thousand_bytes()), kAlways),
      UnorderedElementsAre(MemoryRow{"aten::ones (aten::empty)", 0, 1, 1, 1000, 1000, 1000, 1000},
                           MemoryRow{"aten::ones", 0, 1, 0, 0, 1000, 0, 1024},
                           MemoryRow{"aten::fill_", 0, 1, 1, 0, 0, 24, 24},
                           MemoryRow{"(no operator)", 0, 1, 0, -1000, -1000, 0, 0}));
}

TEST(MemoryTable, OfARange) {
  const MemoryUse use = use_of(ones_of_thousand_bytes());
  EXPECT_THAT(memory_table(use, {35'000, 36'000}),
              UnorderedElementsAre(MemoryRow{"aten::ones", 0, 1, 0, 0, 24, 0, 24},
                                   MemoryRow{"aten::fill_", 0, 1, 1, 24, 24, 24, 24}));
  EXPECT_TRUE(memory_table(use, {36'001, 80'000}).empty());
}

TEST(MemoryTable, OneThatCallsItselfGrowsOnce) {
  TraceText text;
  text.event("cpu_op", "f", 0, 100).event("cpu_op", "g", 10, 50).event("cpu_op", "f", 20, 10);
  text.memory(25, 8, 8);
  EXPECT_THAT(memory_table(use_of(text), kAlways),
              UnorderedElementsAre(MemoryRow{"f", 0, 2, 1, 8, 8, 8, 8},
                                   MemoryRow{"g", 0, 1, 0, 0, 8, 0, 8}));
}

TEST(MemoryBlocks, KnowWhoTookThemAndHowLong) {
  TraceText text;
  text.event("cpu_op", "aten::ones", 10, 40).event("cpu_op", "aten::empty", 15, 10);
  text.memory(20, 1000, 1000, 0, -1, 1, 7).memory(30, 64, 1064, 0, -1, 1, 8);
  text.memory(60, -1000, 64, 0, -1, 1, 7).memory(70, 500, 564, 0, -1, 1, 7);  // used again
  text.memory(80, -500, 64, 0, -1, 1, 9);  // of another address: taken before the recording
  text.memory(20, 2000, 2000, 1, 0, 1, 7).memory(90, -2000, 0, 1, 0, 1, 7);
  text.memory(95, 300, 364).memory(96, -300, 64);  // without an address
  const MemoryUse use = use_of(text);
  const auto blocks = memory_blocks(use, kAlways, 10);
  ASSERT_EQ(blocks.size(), 5U);
  EXPECT_EQ(use.devices[blocks[0].device].name, "GPU 0");
  EXPECT_EQ(blocks[0].released_ns, 90'000);
  EXPECT_EQ(blocks[1].bytes, 1000);
  EXPECT_EQ(use.names[use.calls[blocks[1].call].name], "aten::ones (aten::empty)");
  EXPECT_EQ(blocks[1].taken_ns, 20'000);
  EXPECT_EQ(blocks[1].released_ns, 60'000);
  EXPECT_EQ(blocks[2], (MemoryBlock{500, 0, kNoNode, 70'000, std::nullopt}));
  EXPECT_EQ(blocks[3], (MemoryBlock{300, 0, kNoNode, 95'000, std::nullopt}));
  EXPECT_EQ(blocks[4].released_ns, std::nullopt);
  EXPECT_EQ(memory_blocks(use, {30'000, 70'001}, 10).size(), 2U);
  EXPECT_EQ(memory_blocks(use, kAlways, 1), std::vector<MemoryBlock>(1, blocks[0]));
}

TEST(MemoryUse, HasACurveAndAPeakForEachDevice) {
  TraceText text;
  text.event("cpu_op", "aten::empty", 0, 10);
  text.memory(5, 100, 100).memory(50, -100, 0);
  text.memory(30, 70, 70, 1, 0).memory(20, 30, 90, 1, 0).memory(6, 5, 5, 1, 1);
  const MemoryUse use = use_of(text);
  ASSERT_EQ(use.devices.size(), 3U);
  EXPECT_EQ(use.devices[0].name, "CPU");
  EXPECT_EQ(use.devices[0].allocated.bytes, 100);
  EXPECT_EQ(use.devices[0].allocated.time_ns, 5'000);
  EXPECT_EQ(use.devices[1].name, "GPU 0");
  EXPECT_EQ(use.devices[1].curve.front().time_ns, 20'000);  // out of order in the file
  EXPECT_EQ(use.devices[1].allocated.bytes, 90);
  EXPECT_EQ(use.devices[2].name, "GPU 1");
}

// Another thread allocates while this one is inside of an operator.
TEST(MemoryUse, ChargesTheThreadThatAllocates) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 100);
  text.event("cpu_op", "aten::add", 40, 5, Json::object(), 2);
  text.memory(42, 64, 64, 0, -1, 2);
  EXPECT_THAT(memory_table(use_of(text), kAlways),
              UnorderedElementsAre(MemoryRow{"aten::add", 0, 1, 1, 64, 64, 64, 64}));
}

TEST(Thinned, KeepsThePeaks) {
  std::vector<traces::MemoryPoint> curve(10'000);
  for (std::size_t i = 0; i < curve.size(); ++i) {
    curve[i].time_ns = static_cast<std::int64_t>(i);
    curve[i].allocated_bytes = i == 4321 ? 99 : 7;
  }
  const auto few = thinned(curve, 100);
  EXPECT_LE(few.size(), 100U);
  EXPECT_EQ(std::ranges::count(few, 99, &traces::MemoryPoint::allocated_bytes), 1);
  EXPECT_EQ(few.front().time_ns, 0);
  EXPECT_EQ(few.back().time_ns, 9'999);
  EXPECT_EQ(thinned(few, 1000).size(), few.size());
}

}  // namespace
}  // namespace autotuned::analysis
