// SPDX-License-Identifier: Apache-2.0
// For drawing: calls merged by who calls whom, and events as bars on rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/call_tree.hpp"
#include "profiler/analysis/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

struct Frame {
  std::uint32_t name = 0;          // index into Flame::names
  std::uint32_t parent = kNoNode;  // stands before it
  traces::EventKind kind = traces::EventKind::cpu_operator;
  std::int64_t calls = 0;
  std::int64_t host_ns = 0;    // with what is called
  std::int64_t device_ns = 0;  // launched by it and by what it called
};

struct Flame {
  std::vector<Frame> frames;
  std::vector<std::string> names;
  std::int64_t left_out = 0;  // frames that are not among them, the shortest
};

// All threads and all steps together. At most `most` frames, and none without the one that it is in.
// REQUIRES: `nodes` is call_tree(trace, …, everything).
[[nodiscard]] Flame flame_of(const traces::Trace& trace, const std::vector<CallNode>& nodes,
                             std::size_t most);

struct Bar {
  std::uint32_t track = 0;  // index into Bars::tracks
  std::uint32_t name = 0;   // index into Bars::names
  std::uint32_t depth = 0;  // 0 is outermost
  traces::EventKind kind = traces::EventKind::cpu_operator;
  Interval time;
};

struct Bars {
  std::vector<std::string> tracks;  // threads, then streams of devices
  std::vector<std::string> names;
  std::vector<Bar> bars;  // by track and time
  std::int64_t left_out = 0;
};

// The `most` longest events within `window`, on at most `most_tracks` tracks, those with the most events.
[[nodiscard]] Bars bars_of(const traces::Trace& trace, Interval window, std::size_t most,
                           std::size_t most_tracks);

}  // namespace autotuned::analysis
