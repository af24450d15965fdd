// SPDX-License-Identifier: Apache-2.0
#include "base/machine/driver_library.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <system_error>

namespace autotuned {
namespace {

constexpr std::array<const char*, 5> kFolders = {
    "/usr/local/nvidia/lib64",  // device plugins of clusters
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",        // the Windows Subsystem for Linux
    "/.singularity.d/libs",    // Apptainer and Singularity, --nv
    "/run/opengl-driver/lib",  // NixOS
};

DriverLibrary open(const std::string& file) {
  DriverLibrary library{.handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)};
  if (library.handle == nullptr) {
    const char* const why = ::dlerror();
    library.reason = why != nullptr ? why : "unknown error";
  }
  return library;
}

}  // namespace

std::span<const char* const> driver_folders() {
  return kFolders;
}

DriverLibrary open_driver_library(const std::string& name, std::span<const char* const> folders) {
  DriverLibrary library = open(name);
  if (library.handle != nullptr || name.find('/') != std::string::npos) return library;
  for (const char* const folder : folders) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    // The error for a library that exists and cannot be opened says more than that the linker found none.
    library = open(file.string());
    if (library.handle != nullptr) break;
  }
  return library;
}

}  // namespace autotuned
