// SPDX-License-Identifier: Apache-2.0
// Threads of the host and streams of devices: how busy each was, and where it stood still.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

struct TimelineRow {
  std::string name;          // "thread 15326 (python)", "GPU 0, stream 7"
  std::uint32_t thread = 0;  // index into Trace::threads
  bool is_device = false;
  std::int64_t events = 0;
  // In which at least one operator, call or kernel runs; of a thread that has none of these, in which an
  // annotation is open that holds no other.
  std::int64_t busy_ns = 0;
  double busy_ratio = 0;  // of the stretches
  Interval longest_gap;   // empty where it never stood still
};

struct GapRow {
  std::uint32_t timeline = 0;  // index into TimelineTable::rows
  Interval time;
  // What the host did for the most of it, on any thread ("nothing that was recorded" where that is so).
  std::string meanwhile;
  double meanwhile_ratio = 0;  // share of the gap
};

struct TimelineTable {
  std::vector<TimelineRow> rows;  // the host's, then the devices', the busiest first
  std::vector<GapRow>
      gaps;  // of devices, or of the busiest thread with operators; the longest first
};

// Within `stretches`. At most `most_gaps` gaps.
[[nodiscard]] TimelineTable timeline_table(const traces::Trace& trace, const Stretches& stretches,
                                           std::size_t most_gaps);

// "thread 15326 (python)", "GPU 0, stream 7".
[[nodiscard]] std::vector<std::string> timeline_names(const traces::Trace& trace);

}  // namespace autotuned::analysis
