// SPDX-License-Identifier: Apache-2.0
// What the driver says about its devices. Without the driver's types.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "profiler/recorder/timeline_device.hpp"

namespace autotuned::profiler {

// In the order of CUDA's numbers, those that CUDA_VISIBLE_DEVICES leaves. Starts the driver in this process
// where it was not yet. ErrorKind::unsupported where there is none, or it refuses.
[[nodiscard]] Result<std::vector<RecordedDevice>> read_cuda_devices(
    const char* driver = "libcuda.so.1");

}  // namespace autotuned::profiler
