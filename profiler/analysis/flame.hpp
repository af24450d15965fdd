// SPDX-License-Identifier: Apache-2.0
// Data for drawing: calls merged by call path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// All calls with the same call path.
struct FlameFrame {
  std::uint32_t name = 0;                                    // index into Flame::names
  std::uint32_t parent = kNoNode;                            // its index is smaller
  traces::EventKind kind = traces::EventKind::cpu_operator;  // annotation for a Python function
  std::int64_t calls = 0;
  std::int64_t host_ns = 0;    // includes calls inside
  std::int64_t device_ns = 0;  // launched by it or by calls inside
};

struct Flame {
  std::vector<FlameFrame> frames;
  std::vector<std::string> names;
  std::int64_t left_out = 0;  // number of frames that are left out: the shortest
};

// The calls of a flame graph: operators, modules and annotations, either alone or within the Python functions that called them
// (stacks.hpp).
enum class FlameOf { operators, python_too };

// Merges the calls of all threads and steps. Returns at most `most` frames; each comes with its parent. REQUIRES: `nodes` is
// call_tree(trace, …, everything).
[[nodiscard]] Flame flame_of(const traces::Trace& trace, const std::vector<CallNode>& nodes,
                             std::size_t most, FlameOf what = FlameOf::operators);

}  // namespace autotuned::analysis
