// SPDX-License-Identifier: Apache-2.0
// For drawing: calls merged by who calls whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

struct Frame {
  std::uint32_t name = 0;                                    // index into Flame::names
  std::uint32_t parent = kNoNode;                            // stands before it
  traces::EventKind kind = traces::EventKind::cpu_operator;  // functions of Python are annotations
  std::int64_t calls = 0;
  std::int64_t host_ns = 0;    // with what is called
  std::int64_t device_ns = 0;  // launched by it and by what it called
};

struct Flame {
  std::vector<Frame> frames;
  std::vector<std::string> names;
  std::int64_t left_out = 0;  // frames that are not among them, the shortest
};

// Operators, modules and annotations alone, or within the functions of Python that called them (stacks.hpp).
enum class FlameOf { operators, python_too };

// All threads and all steps together. At most `most` frames, and none without the one that it is in.
// REQUIRES: `nodes` is call_tree(trace, …, everything).
[[nodiscard]] Flame flame_of(const traces::Trace& trace, const std::vector<CallNode>& nodes,
                             std::size_t most, FlameOf what = FlameOf::operators);

}  // namespace autotuned::analysis
