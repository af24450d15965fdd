// SPDX-License-Identifier: Apache-2.0
// Data for drawing: events as bars on rows, and the cause of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

inline constexpr std::uint32_t kNoBar = traces::kNoDetail;

// An event as it is drawn.
struct Bar {
  std::uint32_t track = 0;  // index into Bars::tracks
  std::uint32_t name = 0;   // index into Bars::names
  std::uint32_t depth = 0;  // 0 is outermost
  traces::EventKind kind = traces::EventKind::cpu_operator;
  Interval time;
  // The enclosing bar: an index into Bars::bars, or kNoBar if it is not drawn.
  std::uint32_t inside = kNoBar;
  // An index into Bars::bars, or kNoBar. For work of a device: the call that launched it or, if that call is
  // too short to be drawn, the bar around the call. For a node of the backward pass: the operator with the
  // same sequence number.
  std::uint32_t cause = kNoBar;
};

struct Bars {
  std::vector<std::string> tracks;  // threads, then streams of devices
  std::vector<std::string> names;
  std::vector<Bar> bars;      // by track and time
  std::int64_t left_out = 0;  // events that are not drawn
};

// Returns the `most` longest events within `window`, on at most `most_tracks` tracks, which are those with the most events.
[[nodiscard]] Bars bars_of(const traces::Trace& trace, const Launches& launches, Interval window,
                           std::size_t most, std::size_t most_tracks);

// Returns the `most` longest of `bars`. Causes in the result refer only to bars in the result.
[[nodiscard]] std::vector<Bar> longest(const std::vector<Bar>& bars, std::size_t most);

}  // namespace autotuned::analysis
