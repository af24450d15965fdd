// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/folder_names.hpp"
#include "base/machine/allocator_library.hpp"
#include "base/machine/driver_library.hpp"
#include "base/process/process.hpp"
#include "daemon/common/orphans.hpp"
#include "daemon/common/submitted_variables.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

constexpr const char* kAllocator = "memory.allocator";
constexpr const char* kDriver = "libcuda.so.1";
// A folder with one of these libraries holds more than the driver: its libraries would replace LibTorch's.
constexpr std::array<std::string_view, 7> kNotOfDrivers = {
    "libcudart.so", "libcublas", "libcudnn", "libtorch", "libc10", "libc.so", "libstdc++.so"};

bool is_driver_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!folder.is_absolute() || !fs::exists(folder / kDriver, ignored)) return false;
  FolderNames names(folder.c_str());
  while (const auto name = names.next()) {
    const std::string_view file = *name;
    if (std::ranges::any_of(kNotOfDrivers,
                            [&](std::string_view start) { return file.starts_with(start); })) {
      return false;
    }
  }
  return true;
}

std::string value_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

}  // namespace

std::string trainer_library_path(std::string_view libtorch, std::string_view own_path,
                                 std::span<const char* const> driver_folders) {
  std::string path;
  const auto add = [&path](const std::string& folder) {
    if (!path.empty()) path += ':';
    path += folder;
  };
  if (!libtorch.empty()) add(std::string(libtorch) + "/lib");
  while (!own_path.empty()) {
    const std::string folder(own_path.substr(0, own_path.find(':')));
    own_path.remove_prefix(std::min(own_path.size(), folder.size() + 1));
    if (is_driver_folder(folder)) add(folder);
  }
  for (const char* const folder : driver_folders)
    if (is_driver_folder(folder)) add(folder);
  return path;
}

std::vector<std::string> trainer_environment() {
  std::vector<std::string> names = training_variables();
  names.emplace_back(kMarkVariable);
  std::vector<std::string> environment = environment_of(names);
  environment.push_back("AUTOTUNED_PARENT_PID=" + std::to_string(getpid()));
  // Else CUDA puts the fastest GPU first, and NVML and nvidia-smi do not.
  if (value_of("CUDA_DEVICE_ORDER").empty()) {
    std::erase(environment, "CUDA_DEVICE_ORDER=");
    environment.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  }
  const std::string libraries = trainer_library_path(value_of("AUTOTUNED_LIBTORCH"),
                                                     value_of("LD_LIBRARY_PATH"), driver_folders());
  if (!libraries.empty()) environment.push_back("LD_LIBRARY_PATH=" + libraries);
  return environment;
}

Result<std::vector<std::string>> trainer_environment(const Configuration& configuration) {
  std::vector<std::string> environment = trainer_environment();
  bool has_wait_policy = false;
  for (const auto& [name, value] : configuration.values()) {
    if (!name.starts_with("env.")) continue;
    const std::string variable = name.substr(4) + "=";
    const std::string text = to_text(value);
    // If a variable is there twice, the first entry counts.
    std::erase_if(environment,
                  [&](const std::string& entry) { return entry.starts_with(variable); });
    if (text.empty()) continue;
    environment.push_back(variable + text);
    has_wait_policy = has_wait_policy || name == "env.OMP_WAIT_POLICY";
  }
  // Spinning threads of a waiting trainer slow the working one down many times over.
  if (!has_wait_policy) environment.emplace_back("OMP_WAIT_POLICY=passive");
  const KnobValue* const allocator = configuration.find(kAllocator);
  if (allocator == nullptr || to_text(*allocator) == "glibc") return environment;
  const auto library = find_allocator_library(to_text(*allocator));
  if (!library) {
    Error error = library.error();
    error.what = to_text(*allocator) + " " + error.message();
    error.where = kAllocator;
    return tl::unexpected(std::move(error));
  }
  environment.push_back("LD_PRELOAD=" + library->string());
  return environment;
}

}  // namespace autotuned::daemon
