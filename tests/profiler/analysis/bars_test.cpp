// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/bars.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

Bars bars_in(const TraceText& text, std::size_t most = 1000, std::size_t most_tracks = 10) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return bars_of(*trace, launches_of(*trace), {0, 1'000'000}, most, most_tracks);
}

// The first bar of this name.
std::uint32_t bar_named(const Bars& bars, const std::string& name) {
  for (std::uint32_t i = 0; i < bars.bars.size(); ++i) {
    if (bars.names[bars.bars[i].name] == name) return i;
  }
  ADD_FAILURE() << "no bar is called " << name;
  return 0;
}

// The name of its cause; "": it has none.
std::string cause_of(const Bars& bars, const std::string& name) {
  const std::uint32_t cause = bars.bars[bar_named(bars, name)].cause;
  return cause == kNoBar ? "" : bars.names[bars.bars[cause].name];
}

TraceText two_steps_of_one_call() {
  TraceText text;
  for (int step = 0; step < 2; ++step) {
    const int at = 100 * step;
    text.step(step, at, 90);
    text.event("cpu_op", "aten::linear", at + 10, 50);
    text.event("cpu_op", "aten::addmm", at + 20, 20);
    text.kernel("gemm", at + 25, at + 30, 8);
  }
  return text;
}

TEST(Bars, StandOnRowsByDepth) {
  const Bars bars = bars_in(two_steps_of_one_call());
  ASSERT_EQ(bars.tracks.size(), 2U);
  EXPECT_EQ(bars.tracks[1], "GPU 0, stream 7");
  ASSERT_EQ(bars.bars.size(), 10U);
  EXPECT_EQ(bars.names[bars.bars[0].name], "ProfilerStep#0");
  EXPECT_EQ(bars.bars[0].depth, 0U);
  EXPECT_EQ(bars.names[bars.bars[2].name], "aten::addmm");
  EXPECT_EQ(bars.bars[2].depth, 2U);
  EXPECT_EQ(bars.bars[2].inside, 1U);
  EXPECT_EQ(bars.left_out, 0);
}

TEST(Bars, KeepTheLongest) {
  const Bars bars = bars_in(two_steps_of_one_call(), 3);
  ASSERT_EQ(bars.bars.size(), 3U);  // both steps, and one of two calls that are as long
  EXPECT_EQ(bars.left_out, 7);
  EXPECT_EQ(bars.bars[1].inside, 0U);
  EXPECT_EQ(bars_in(two_steps_of_one_call(), 100, 1).tracks.size(), 1U);
}

TEST(Bars, WorkOfADeviceKnowsItsLaunch) {
  const Bars bars = bars_in(two_steps_of_one_call());
  for (const Bar& bar : bars.bars) {
    if (bar.kind != traces::EventKind::kernel) continue;
    ASSERT_NE(bar.cause, kNoBar);
    const Bar& call = bars.bars[bar.cause];
    EXPECT_EQ(call.kind, traces::EventKind::runtime_call);
    EXPECT_EQ(call.time.start_ns, bar.time.start_ns - 5'000) << "of its own step";
  }
}

// Calls are the shortest of all, and the first to be left out.
TEST(Bars, WhatHeldTheLaunchStandsForIt) {
  const Bars bars = bars_in(two_steps_of_one_call(), 8);
  EXPECT_EQ(bars.left_out, 2);
  EXPECT_EQ(cause_of(bars, "gemm"), "aten::addmm");
  EXPECT_EQ(bars.bars[bars.bars.back().cause].time.start_ns, 120'000) << "of its own step";

  const std::vector<Bar> six = longest(bars.bars, 6);
  ASSERT_EQ(six.size(), 6U);
  EXPECT_TRUE(std::ranges::all_of(six, [](const Bar& bar) { return bar.cause == kNoBar; }));
}

TEST(Bars, BackwardKnowsTheLastForwardOfItsNumber) {
  TraceText text;
  text.event("cpu_op", "aten::linear", 0, 40, {{"Sequence number", 7}});
  text.event("cpu_op", "aten::addmm", 10, 25, {{"Sequence number", 7}});
  text.event("cpu_op", "aten::relu", 50, 5, {{"Sequence number", 8}});
  const Json of_seven = {{"Sequence number", 7}, {"Fwd thread id", 1}};
  text.event("cpu_op", "evaluate_function: AddmmBackward0", 100, 30, of_seven, 2);
  text.event("cpu_op", "AddmmBackward0", 105, 20, of_seven, 2);
  text.event("cpu_op", "ReluBackward0", 90, 5, {{"Sequence number", 8}, {"Fwd thread id", 1}}, 2);
  text.event("cpu_op", "early", 1, 2, {{"Sequence number", 8}, {"Fwd thread id", 1}}, 2);
  text.event("cpu_op", "lost", 140, 2, {{"Sequence number", 9}, {"Fwd thread id", 1}}, 2);
  const Bars bars = bars_in(text);
  EXPECT_EQ(cause_of(bars, "evaluate_function: AddmmBackward0"), "aten::addmm");
  EXPECT_EQ(cause_of(bars, "AddmmBackward0"), "aten::addmm");
  EXPECT_EQ(cause_of(bars, "ReluBackward0"), "aten::relu");
  EXPECT_EQ(cause_of(bars, "early"), "") << "it ran before its forward";
  EXPECT_EQ(cause_of(bars, "lost"), "");
  EXPECT_EQ(cause_of(bars, "aten::addmm"), "");
  // What holds an operator that is left out did not make the node.
  EXPECT_EQ(cause_of(bars_in(text, 3), "evaluate_function: AddmmBackward0"), "aten::addmm");
  EXPECT_EQ(cause_of(bars_in(text, 2), "evaluate_function: AddmmBackward0"), "");
}

// Replicas of one model count alike, each on a thread of its own.
TEST(Bars, BackwardKnowsTheForwardOfItsThread) {
  TraceText text;
  text.event("cpu_op", "aten::first", 0, 40, {{"Sequence number", 7}}, 1);
  text.event("cpu_op", "aten::second", 20, 40, {{"Sequence number", 7}}, 2);
  text.event("cpu_op", "FirstBackward0", 100, 10, {{"Sequence number", 7}, {"Fwd thread id", 1}},
             3);
  text.event("cpu_op", "SecondBackward0", 120, 10, {{"Sequence number", 7}, {"Fwd thread id", 2}},
             3);
  const Bars bars = bars_in(text);
  EXPECT_EQ(cause_of(bars, "FirstBackward0"), "aten::first");
  EXPECT_EQ(cause_of(bars, "SecondBackward0"), "aten::second");
}

}  // namespace
}  // namespace autotuned::analysis
