// SPDX-License-Identifier: Apache-2.0
// Estimates how much of a device the kernels of a recording can fill, from the shape of their launches. Pure.
#pragma once

#include <vector>

#include "profiler/recorder/timeline_device.hpp"

namespace autotuned::profiler {

// Sets blocks_per_sm, warps_per_sm and occupancy_percent of every kernel whose device is in `devices`.
// Occupancy follows NVIDIA's calculation: the threads of the blocks that registers, shared memory and threads allow at a time, or that
// there are, in percent of a multiprocessor's threads. Nothing is measured.
void estimate_occupancy(DeviceTimeline& timeline, const std::vector<RecordedDevice>& devices);

}  // namespace autotuned::profiler
