// SPDX-License-Identifier: Apache-2.0
// The GPUs as NVIDIA's driver lists them. The driver's library is opened at run time; a machine without it is
// supported.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"

namespace autotuned {

// The GPUs and the driver.
struct NvmlReport {
  std::vector<Gpu> gpus;
  std::string driver;  // "580.65.06"; empty when unknown
  std::string reason;  // why there are no GPUs, or why some were left out; else empty
};

// The conditions that disturb a GPU now, and how long it has been slowed down so far.
struct GpuState {
  std::string uuid;
  std::string name;
  std::int64_t memory_free_bytes = 0;  // 0: not known
  int processes = 0;                   // processes of all users that compute on it
  bool is_hot = false;                 // slowed down because of its temperature
  // Slowed down by an external power brake, not by its ordinary power limit.
  bool is_held_by_power = false;
  // The time for which the GPU was slowed down since the driver was loaded. No value if the driver does not report it, as for
  // desktop GPUs.
  std::optional<std::chrono::nanoseconds> slowed_by_power;
  std::optional<std::chrono::nanoseconds> slowed_by_heat;
};

// Returns the state of every GPU that answers. Values that the driver does not report stay 0, false or empty.
[[nodiscard]] std::vector<GpuState> read_gpu_states(const char* library);

// Lists the GPUs. `library`: a name or path for dlopen(), here and above. Never fails: `reason` describes an error.
[[nodiscard]] NvmlReport read_nvml(const char* library);

}  // namespace autotuned
