// SPDX-License-Identifier: Apache-2.0
// The libraries of NVIDIA's driver. They belong to the machine; in containers they can lie in folders that
// the dynamic linker does not search.
#pragma once

#include <span>
#include <string>

namespace autotuned {

// Further folders in which drivers lie: those of the device plugins of clusters, of WSL, Apptainer and NixOS.
// They contain only drivers.
[[nodiscard]] std::span<const char* const> driver_folders();

struct DriverLibrary {
  void* handle = nullptr;  // null: it cannot be opened
  std::string reason;      // the dynamic linker's message, if `handle` is null
};

// Opens `name` (libcuda.so.1, libnvidia-ml.so.1, or a path) as the dynamic linker does, else from the first
// of `folders` that contains it. Never closes it: drivers start their own threads. A later dlopen() of the
// same name, such as that of CUDA's runtime, returns the same library. Any thread.
[[nodiscard]] DriverLibrary open_driver_library(
    const std::string& name, std::span<const char* const> folders = driver_folders());

}  // namespace autotuned
