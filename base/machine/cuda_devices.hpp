// SPDX-License-Identifier: Apache-2.0
// Which GPUs CUDA shows to this process, in CUDA's order. That order, and which there are, depend on
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: the list of NVML (base/machine/nvml.hpp) may be another one.
#pragma once

#include <string>
#include <vector>

namespace autotuned {

// Both take the handle of libcuda.so.1, which is not null.

// The newest CUDA that the driver knows: 13000 is CUDA 13.0. 0: it does not tell.
[[nodiscard]] int read_cuda_version(void* driver);

// The UUID of each device without the words before it ("2a3c…-…", where nvidia-smi says GPU-2a3c…-… or, of a part of a
// GPU, MIG-2a3c…-…). Empty text: the driver does not tell. Initialises CUDA, but makes no context.
[[nodiscard]] std::vector<std::string> read_cuda_uuids(void* driver);

}  // namespace autotuned
