// SPDX-License-Identifier: Apache-2.0
// The GPUs as NVIDIA's driver lists them. The driver's library is opened at run time: a machine
// without it is an ordinary machine.
#pragma once

#include <string>
#include <vector>

#include "base/machine.hpp"

namespace autotuned {

struct NvmlReport {
  std::vector<Gpu> gpus;
  std::string driver;  // "580.65.06"; empty when unknown
  std::string reason;  // why there is none, or why some were left out; else empty
};

// `library` is a name or path for dlopen. Never fails: whatever goes wrong is in `reason`.
[[nodiscard]] NvmlReport read_nvml(const char* library);

}  // namespace autotuned
