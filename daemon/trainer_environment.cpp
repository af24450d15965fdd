// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainer_environment.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/process.hpp"

namespace autotuned::daemon {

std::vector<std::string> trainer_environment() {
  std::vector<std::string> environment =
      environment_of({"AUTOTUNED_JOB", "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ",
                      "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING",
                      "OMP_NUM_THREADS", "ASAN_OPTIONS", "UBSAN_OPTIONS"});
  environment.push_back("AUTOTUNED_PARENT_PID=" + std::to_string(getpid()));
  const char* const libtorch = std::getenv("AUTOTUNED_LIBTORCH");
  if (libtorch != nullptr && *libtorch != '\0') {
    environment.push_back("LD_LIBRARY_PATH=" + std::string(libtorch) + "/lib");
  }
  return environment;
}

}  // namespace autotuned::daemon
