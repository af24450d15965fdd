// SPDX-License-Identifier: Apache-2.0
// GPUs as a recording describes them.
#pragma once

#include "profiler/recorder/timeline_device.hpp"

namespace autotuned::profiler {

// NVIDIA H100 SXM.
inline RecordedDevice sample_h100() {
  return {.id = 0,
          .name = "H100",
          .memory_bytes = std::int64_t{80} << 30U,
          .compute_major = 9,
          .compute_minor = 0,
          .max_threads_per_block = 1'024,
          .max_threads_per_multiprocessor = 2'048,
          .registers_per_block = 65'536,
          .registers_per_multiprocessor = 65'536,
          .warp_size = 32,
          .shared_bytes_per_block = 49'152,
          .shared_bytes_per_block_optin = 232'448,
          .shared_bytes_per_multiprocessor = 233'472,
          .reserved_shared_bytes_per_block = 1'024,
          .multiprocessors = 132};
}

}  // namespace autotuned::profiler
