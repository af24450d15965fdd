// SPDX-License-Identifier: Apache-2.0
// The use of each device while steps ran. The definitions are those of PyTorch's profiler plugin.
#pragma once

#include <optional>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The use of one device within stretches of time. A figure is absent if no kernel of the trace has the data
// for it.
struct DeviceUse {
  int device = 0;
  double utilization = 0;  // share of the time in which at least one kernel runs
  // Share of the multiprocessors with a block, from blocks per multiprocessor, 0 to 1. Kernels that run at
  // the same time add up, to 1 at most; idle time counts as 0.
  std::optional<double> sm_efficiency;
  // Mean over the kernels, weighted by duration, so idle time does not count; 0 to 100.
  std::optional<double> achieved_occupancy_percent;
  double tensor_core_ratio = 0;  // share of the kernel time within the stretches
  // The share of generated kernels, which may or may not use tensor cores.
  double unknown_tensor_core_ratio = 0;
};

// One entry for each device that ran a kernel, by number.
[[nodiscard]] std::vector<DeviceUse> device_uses(const traces::Trace& trace,
                                                 const Stretches& stretches);

}  // namespace autotuned::analysis
