// SPDX-License-Identifier: Apache-2.0
// Traces with thousands of threads, with events in any order, and with clocks that jump.
#include "profiler/analysis/findings/odd_times.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "profiler/analysis/profile.hpp"
#include "tests/places.hpp"
#include "tests/profiler/packed_json.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TraceProfile profile_of(const std::string& text) {
  const auto trace = read_trace_text(text, {.with_stacks = true});
  EXPECT_TRUE(trace) << trace.error().message();
  return profile_of(*trace, Depth::plots);
}

// The parts add up to the step, whatever the times are.
void expect_whole_steps(const TraceProfile& profile) {
  const Breakdown& breakdown = profile.summary.breakdown;
  std::int64_t end_ns = breakdown.steps.front().time.start_ns;
  for (const Step& step : breakdown.steps) {
    std::int64_t sum_ns = 0;
    for (const std::int64_t part_ns : step.part_ns)
      sum_ns += part_ns;
    EXPECT_EQ(sum_ns, step.time.length_ns()) << step.name;
    EXPECT_GE(step.time.start_ns, end_ns);
    end_ns = step.time.end_ns;
  }
  for (const auto& [name, value] : profile.summary.signals)
    EXPECT_TRUE(std::isfinite(value)) << name;
}

std::int64_t calls_of(const TraceProfile& profile, const std::string& name) {
  const auto& rows = profile.summary.operators;
  const auto row = std::ranges::find(rows, name, &OperatorRow::name);
  return row == rows.end() ? 0 : row->calls;
}

TEST(OddTimes, ThousandsOfThreads) {
  constexpr int kThreads = 5000;
  TraceText text;
  text.step(1, 0, 1000);
  for (int thread = 0; thread < kThreads; ++thread) {
    const double at = thread % 700;
    text.python("f", at, 200, 0, 0, thread);
    text.event("cpu_op", "aten::linear", at, 100, {{"Sequence number", thread}}, thread);
    text.event("cpu_op", "aten::addmm", at + 10, 50, Json::object(), thread);
    text.event("cpu_op", "AddmmBackward0", at + 120, 20,
               {{"Sequence number", thread}, {"Fwd thread id", 1 + thread}}, thread);
    text.event("user_annotation", "make_samples", at + 150, 30, Json::object(), thread);
    text.memory(at + 20, 64, 64, 0, -1, thread, 1 + thread);
  }
  const TraceProfile profile = profile_of(text.json().dump());
  EXPECT_THAT(profile.summary.damage, IsEmpty());
  EXPECT_THAT(profile.summary.notes, IsEmpty());
  EXPECT_EQ(calls_of(profile, "aten::addmm"), kThreads);
  EXPECT_EQ(profile.timelines.rows.size(), std::size_t{kThreads});
  EXPECT_LE(profile.bars.tracks.size(), 100U);
  EXPECT_EQ(profile.memory.changes.size(), std::size_t{kThreads});
  expect_whole_steps(profile);
}

// The order of a file says nothing: whatever is mixed up is analysed alike.
TEST(OddTimes, TheOrderDoesNotMatter) {
  for (const char* name : {"rank0", "workers"}) {
    Json json = read_packed_json(tests::source_folder() / "tests/profiler/data" /
                                 (std::string(name) + ".pt.trace.json.gz"));
    const TraceProfile ordered = profile_of(json.dump());
    std::vector<Json> events = json["traceEvents"];
    std::shuffle(events.begin(), events.end(), std::mt19937_64(11));
    json["traceEvents"] = events;
    const TraceProfile mixed = profile_of(json.dump());
    EXPECT_EQ(mixed.summary.damage, ordered.summary.damage);
    EXPECT_EQ(mixed.summary.notes, ordered.summary.notes);
    ASSERT_EQ(mixed.summary.signals.size(), ordered.summary.signals.size());
    for (const auto& [signal, value] : ordered.summary.signals)
      EXPECT_NEAR(mixed.summary.signals.at(signal), value, 1e-9 * (1 + std::abs(value))) << signal;
    std::map<std::string, OperatorRow> rows;
    for (const OperatorRow& row : ordered.summary.operators)
      rows[row.name] = row;
    ASSERT_EQ(mixed.summary.operators.size(), rows.size());
    for (const OperatorRow& row : mixed.summary.operators)
      EXPECT_EQ(row, rows[row.name]) << row.name;
    EXPECT_EQ(mixed.memory.changes.size(), ordered.memory.changes.size());
    expect_whole_steps(mixed);
  }
}

// In the second step the clock was set back by 60 us.
TEST(OddTimes, AClockThatWasSetBack) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 10, 80);
  text.step(2, 40, 100).event("cpu_op", "aten::mm", 60, 70);
  text.step(3, 140, 100).event("cpu_op", "aten::mm", 150, 80);
  const TraceProfile profile = profile_of(text.text());
  EXPECT_THAT(profile.summary.notes,
              ElementsAre(HasSubstr("1 event overlaps another event of its thread without lying "
                                    "inside it, by up to 60.0 µs: a clock jumped")));
  EXPECT_EQ(calls_of(profile, "aten::mm"), 3);
  EXPECT_EQ(profile.summary.breakdown.steps.size(), 3U);
  expect_whole_steps(profile);
}

// Years forward, years back, and before 1970.
TEST(OddTimes, AClockThatJumpsFar) {
  constexpr double kYear = 365.0 * 24 * 3600 * 1e6;
  TraceText text;
  for (const double at : {0.0, 40 * kYear, -30 * kYear, 200.0}) {
    const int number = static_cast<int>(at / kYear) + 50;
    text.step(number, at, 100).event("cpu_op", "aten::mm", at + 10, 50);
    text.kernel("gemm", at + 12, at + 20, 30).memory(at + 15, 64, 64);
    text.python("main", at, 90);
  }
  const TraceProfile profile = profile_of(text.text());
  EXPECT_EQ(calls_of(profile, "aten::mm"), 4);
  EXPECT_EQ(profile.summary.kernels.at(0).calls, 4);
  expect_whole_steps(profile);
}

// The device's clock is 5 ms behind: its work seems to begin before anybody asked for it.
TEST(OddTimes, ADeviceWithAnotherClock) {
  TraceText text;
  text.step(1, 10'000, 1000).step(2, 11'000, 1000);
  text.kernel("a", 10'100, 5'150, 300).kernel("b", 11'100, 6'150, 300);
  text.kernel("c", 11'500, 11'495, 100);  // no more than clocks are off anyhow
  const TraceProfile profile = profile_of(text.text());
  EXPECT_THAT(profile.summary.notes,
              Contains(HasSubstr("2 operations of devices begin before their launches, by up to "
                                 "4.95 ms: the clocks")));
  expect_whole_steps(profile);
}

// Damage is named with its place, and the rest is analysed.
TEST(OddTimes, TimesThatAreNone) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 10, 50);
  text.event("cpu_op", "aten::back", 20, -5).event("cpu_op", "aten::long", 20, 1e16);
  text.event("cpu_op", "aten::far", 1e300, 5).event("cpu_op", "aten::when", 20, 5);
  text.json()["traceEvents"].back()["ts"] = "soon";
  const TraceProfile profile = profile_of(text.text());
  EXPECT_THAT(profile.summary.damage, Contains(HasSubstr("a negative \"dur\", taken as 0")));
  EXPECT_THAT(profile.summary.damage, Contains(HasSubstr("no usable \"ts\" and \"dur\"")));
  EXPECT_EQ(calls_of(profile, "aten::mm"), 1);
  EXPECT_EQ(calls_of(profile, "aten::back"), 1);
  EXPECT_EQ(calls_of(profile, "aten::long"), 0);
  expect_whole_steps(profile);
}

// Numbers that count up, that are far apart, that several calls have, and that no call has.
TEST(OddTimes, LaunchesAreFoundByAnyNumbers) {
  for (const std::int64_t apart :
       {std::int64_t{1}, std::int64_t{1} << 60U, -(std::int64_t{1} << 60U)}) {
    TraceText text;
    for (std::int64_t i = -3; i <= 3; ++i) {
      const auto at = static_cast<double>(100 * (i + 3));
      text.event("cuda_runtime", "first", at, 1, {{"correlation", i * apart}});
      text.event("cuda_runtime", "last", at + 2, 1, {{"correlation", i * apart}});
      text.event("kernel", "k", at + 5, 9, {{"device", 0}, {"correlation", i * apart}}, 7);
    }
    text.event("kernel", "lost", 900, 9, {{"device", 0}, {"correlation", 7}}, 7);
    text.event("kernel", "lost", 910, 9, {{"device", 0}}, 7);
    const auto trace = read_trace_text(text.text());
    ASSERT_TRUE(trace);
    const Launches launches = launches_of(*trace);
    ASSERT_EQ(launches.device_events.size(), 9U);
    for (const DeviceEvent& event : launches.device_events) {
      if (trace->name_of(event.row) == "lost") {
        EXPECT_EQ(event.launch, kNoRow);
        continue;
      }
      ASSERT_NE(event.launch, kNoRow);
      EXPECT_EQ(trace->name_of(event.launch), "last");
      EXPECT_EQ(trace->events.correlation[event.launch], trace->events.correlation[event.row]);
    }
  }
}

// Whole microseconds, as older versions wrote them, are no jump.
TEST(OddTimes, RoundedTimesAreFine) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 10, 21).event("cpu_op", "aten::add", 30, 20);
  EXPECT_THAT(profile_of(text.text()).summary.notes, IsEmpty());
}

}  // namespace
}  // namespace autotuned::analysis
