// SPDX-License-Identifier: Apache-2.0
// The libraries of NVIDIA's driver. They come with the machine; containers put them where no linker looks.
#pragma once

#include <span>
#include <string>

namespace autotuned {

// Where drivers lie besides the folders of the dynamic linker: those that device plugins of clusters, WSL, Apptainer
// and NixOS use. Nothing but drivers is in them.
[[nodiscard]] std::span<const char* const> driver_folders();

struct DriverLibrary {
  void* handle = nullptr;  // null: it cannot be opened
  std::string reason;      // why, as the dynamic linker says it
};

// Opens `name` (libcuda.so.1, libnvidia-ml.so.1, or a path) as the dynamic linker finds it, else out of the first of
// `folders` that has it. Never closed: drivers start threads of their own. Whoever opens the same name later, such as
// CUDA's runtime, gets the same library. Any thread.
[[nodiscard]] DriverLibrary open_driver_library(
    const std::string& name, std::span<const char* const> folders = driver_folders());

}  // namespace autotuned
