// SPDX-License-Identifier: Apache-2.0
// Properties of the devices, from the driver. This header needs no driver types.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "profiler/recorder/timeline_device.hpp"

namespace autotuned::profiler {

// Returns the devices that CUDA_VISIBLE_DEVICES permits, in the order of CUDA's numbers. Initialises the driver in
// this process if needed. ErrorKind::unsupported if there is no driver, or it refuses.
[[nodiscard]] Result<std::vector<RecordedDevice>> read_cuda_devices(
    const char* driver = "libcuda.so.1");

}  // namespace autotuned::profiler
