// SPDX-License-Identifier: Apache-2.0
// Threads of the host and streams of devices: how busy each was, and its gaps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// A thread of the host, or a stream of a device.
struct TimelineRow {
  std::string name;          // "thread 15326 (python)", "GPU 0, stream 7"
  std::uint32_t thread = 0;  // index into Trace::threads
  bool is_device = false;
  std::int64_t events = 0;
  // Time in which at least one operator, call or kernel runs. For a thread without any of these: time in
  // which an annotation is open that contains no other.
  std::int64_t busy_ns = 0;
  double busy_ratio = 0;  // share of the stretches, 0 to 1
  Interval longest_gap;   // empty if there is none
};

// A stretch in which a timeline is idle.
struct GapRow {
  std::uint32_t timeline = 0;  // index into TimelineTable::rows
  Interval time;
  // The activity of the host, on any thread, for most of the gap; "nothing that was recorded" if there was none.
  std::string meanwhile;
  double meanwhile_ratio = 0;  // share of the gap, 0 to 1
};

struct TimelineTable {
  std::vector<TimelineRow> rows;  // those of the host, then of devices; the busiest first
  // The gaps of devices or, without devices, of the busiest thread with operators; the longest first.
  std::vector<GapRow> gaps;
};

// Returns the timelines within `stretches`, with at most `most_gaps` gaps.
[[nodiscard]] TimelineTable timeline_table(const traces::Trace& trace, const Stretches& stretches,
                                           std::size_t most_gaps);

// "thread 15326 (python)", "GPU 0, stream 7".
[[nodiscard]] std::vector<std::string> timeline_names(const traces::Trace& trace);

}  // namespace autotuned::analysis
