// SPDX-License-Identifier: Apache-2.0
// The libraries of NVIDIA's driver. They belong to the machine; in containers they can lie in folders that
// the dynamic linker does not search.
#pragma once

#include <span>
#include <string>

namespace autotuned {

// Returns the folders in which WSL, Apptainer, NixOS and the device plugins of clusters install drivers, and which the dynamic
// linker may not search. They contain only drivers.
[[nodiscard]] std::span<const char* const> driver_folders();

// An opened library, or why it cannot be opened.
struct DriverLibrary {
  void* handle = nullptr;  // null if the library cannot be opened
  std::string reason;      // the dynamic linker's message, if `handle` is null
};

// Opens `name` (libcuda.so.1, libnvidia-ml.so.1, or a path) as the dynamic linker does, or else from the first of `folders` that
// contains it. Never closes it, because drivers start threads of their own. A later dlopen() of the same name, such as by CUDA's
// runtime, returns the same library. Any thread.
[[nodiscard]] DriverLibrary open_driver_library(
    const std::string& name, std::span<const char* const> folders = driver_folders());

}  // namespace autotuned
