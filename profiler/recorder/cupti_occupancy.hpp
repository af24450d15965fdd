// SPDX-License-Identifier: Apache-2.0
// How much of a device the kernels of a recording could fill, from the shape of their launches. Pure.
#pragma once

#include <vector>

#include "profiler/recorder/timeline_device.hpp"

namespace autotuned::profiler {

// Fills in blocks_per_sm, warps_per_sm and occupancy_percent of every kernel whose device is among these.
// Occupancy is NVIDIA's calculation: as many blocks at a time as registers, shared memory and threads allow,
// or as there are, in percent of a multiprocessor's threads. Nothing is measured.
void estimate_occupancy(DeviceTimeline& timeline, const std::vector<RecordedDevice>& devices);

}  // namespace autotuned::profiler
