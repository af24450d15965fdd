// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_environment.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/machine/allocator_library.hpp"
#include "base/process/process.hpp"

namespace autotuned::daemon {

namespace {

constexpr const char* kAllocator = "memory.allocator";

}  // namespace

std::vector<std::string> trainer_environment() {
  std::vector<std::string> environment =
      environment_of({"AUTOTUNED_JOB", "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ",
                      "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING",
                      "OMP_NUM_THREADS", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"});
  environment.push_back("AUTOTUNED_PARENT_PID=" + std::to_string(getpid()));
  const char* const libtorch = std::getenv("AUTOTUNED_LIBTORCH");
  if (libtorch != nullptr && *libtorch != '\0') {
    environment.push_back("LD_LIBRARY_PATH=" + std::string(libtorch) + "/lib");
  }
  return environment;
}

Result<std::vector<std::string>> trainer_environment(const Configuration& configuration) {
  std::vector<std::string> environment = trainer_environment();
  bool has_wait_policy = false;
  for (const auto& [name, value] : configuration.values()) {
    if (!name.starts_with("env.")) continue;
    const std::string variable = name.substr(4) + "=";
    const std::string text = to_text(value);
    // Of two entries the first counts.
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
