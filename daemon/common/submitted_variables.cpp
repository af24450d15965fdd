// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/submitted_variables.hpp"

namespace autotuned::daemon {

const std::vector<std::string>& training_variables() {
  static const std::vector<std::string> names = {"HOME",
                                                 "LANG",
                                                 "LC_ALL",
                                                 "PATH",
                                                 "TMPDIR",
                                                 "TZ",
                                                 "XDG_CACHE_HOME",
                                                 "CUDA_DEVICE_ORDER",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "CUDA_MODULE_LOADING",
                                                 "CUDA_MPS_PIPE_DIRECTORY",
                                                 "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                                 "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                                                 "CUDA_CACHE_PATH",
                                                 "PYTORCH_ALLOC_CONF",
                                                 "PYTORCH_CUDA_ALLOC_CONF",
                                                 "OMP_NUM_THREADS",
                                                 "ASAN_OPTIONS",
                                                 "TSAN_OPTIONS",
                                                 "UBSAN_OPTIONS"};
  return names;
}

const std::vector<std::string>& submitted_variables() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = training_variables();
    all.insert(all.end(), {"XDG_DATA_HOME", "AUTOTUNED_LIBTORCH", "AUTOTUNED_PLUGIN_PATH",
                           "AUTOTUNED_TRAINER"});
    return all;
  }();
  return names;
}

}  // namespace autotuned::daemon
