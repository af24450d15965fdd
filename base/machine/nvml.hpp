// SPDX-License-Identifier: Apache-2.0
// The GPUs as NVIDIA's driver lists them. The driver's library is opened at run time: a machine
// without it is an ordinary machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"

namespace autotuned {

struct NvmlReport {
  std::vector<Gpu> gpus;
  std::string driver;  // "580.65.06"; empty when unknown
  std::string reason;  // why there is none, or why some were left out; else empty
};

// What disturbs a GPU at the moment, and how long it has been slowed down so far.
struct GpuState {
  std::string uuid;
  std::string name;
  std::int64_t memory_free_bytes = 0;  // 0: not known
  int processes = 0;                   // that compute on it, whosever they are
  bool is_hot = false;                 // slowed down for its temperature
  bool is_held_by_power = false;  // by an external brake on its power, not by its ordinary limit
  // Since the driver was loaded; nothing: it does not tell, as those of GPUs for desktops do not.
  std::optional<std::chrono::nanoseconds> slowed_by_power;
  std::optional<std::chrono::nanoseconds> slowed_by_heat;
};

// Of every GPU that answers. What a driver does not tell stays 0, false or empty.
[[nodiscard]] std::vector<GpuState> read_gpu_states(const char* library);

// `library` is a name or path for dlopen. Never fails: whatever goes wrong is in `reason`.
[[nodiscard]] NvmlReport read_nvml(const char* library);

}  // namespace autotuned
