// SPDX-License-Identifier: Apache-2.0
// The GPUs that CUDA shows to this process, in CUDA's order. CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change
// the list and the order, so both may differ from NVML's (base/machine/nvml.hpp). Both functions take the
// handle of libcuda.so.1, which must not be null.
#pragma once

#include <string>
#include <vector>

namespace autotuned {

// Both take the handle of libcuda.so.1, which is not null.

// Returns the newest version of CUDA that the driver supports: 13000 for CUDA 13.0; 0 if it is not known.
[[nodiscard]] int read_cuda_version(void* driver);

// Returns the UUID of each device without its prefix: "2a3c…-…" where nvidia-smi shows GPU-2a3c…-… or, for a part of
// a GPU, MIG-2a3c…-…. The text is empty if the driver does not report it. Initialises CUDA, but creates
// no context.
[[nodiscard]] std::vector<std::string> read_cuda_uuids(void* driver);

}  // namespace autotuned
