// SPDX-License-Identifier: Apache-2.0
// The time of each part of the model, forward and backward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// On the host and on the device. The device's is that of the work that was launched in it.
struct ModuleTime {
  std::int64_t forward_host_ns = 0;
  std::int64_t backward_host_ns = 0;
  std::int64_t forward_device_ns = 0;
  std::int64_t backward_device_ns = 0;

  friend bool operator==(const ModuleTime&, const ModuleTime&) = default;
};

struct ModuleRow {
  std::string path;  // "ResNet_0.Sequential_0.Conv2d_3": by who calls whom
  std::string name;  // its last part
  std::uint32_t parent = kNoNode;
  int depth = 0;
  std::int64_t calls = 0;
  ModuleTime own;    // without the modules inside
  ModuleTime total;  // with them
};

struct ModuleTable {
  // A parent before what it holds, which stands by total time, the largest first.
  std::vector<ModuleRow> rows;
  // Outside of all modules (loading, loss, optimizer), and of the backward pass what no module's forward
  // belongs to.
  ModuleTime outside;
};

// A node of the backward pass is charged to the module in whose forward the operator with the same sequence
// number ran; AccumulateGrad, which has none, to the module of the node before it. Each forward thread counts
// for itself (DataParallel has one for each replica): forward_threads.hpp tells them apart.
// REQUIRES: `nodes` is call_tree(trace, …, everything).
[[nodiscard]] ModuleTable module_table(const traces::Trace& trace,
                                       const std::vector<CallNode>& nodes);

}  // namespace autotuned::analysis
