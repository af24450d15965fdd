// SPDX-License-Identifier: Apache-2.0
// The time of each part of the model, forward and backward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Time on the host and on devices. Device time is that of the work launched in the module.
struct ModuleTime {
  std::int64_t forward_host_ns = 0;
  std::int64_t backward_host_ns = 0;
  std::int64_t forward_device_ns = 0;
  std::int64_t backward_device_ns = 0;

  friend bool operator==(const ModuleTime&, const ModuleTime&) = default;
};

// A module of the model, by its path.
struct ModuleRow {
  std::string path;  // "ResNet_0.Sequential_0.Conv2d_3", from the nesting of calls
  std::string name;  // last part of the path
  std::uint32_t parent = kNoNode;
  int depth = 0;
  std::int64_t calls = 0;
  ModuleTime own;    // time without the modules inside
  ModuleTime total;  // time with them
};

struct ModuleTable {
  // A parent comes before its children; siblings by total time, the largest first.
  std::vector<ModuleRow> rows;
  // Time outside of all modules: loading, loss, optimizer, and the part of the backward pass that belongs to
  // no module's forward.
  ModuleTime outside;
};

// A node of the backward pass is charged to the module in whose forward the operator with the same sequence
// number ran; AccumulateGrad, which has no number, to the module of the node before it. Each forward thread
// counts separately (DataParallel has one for each replica); forward_threads.hpp distinguishes them.
// REQUIRES: `nodes` is call_tree(trace, …, everything).
[[nodiscard]] ModuleTable module_table(const traces::Trace& trace,
                                       const std::vector<CallNode>& nodes);

}  // namespace autotuned::analysis
