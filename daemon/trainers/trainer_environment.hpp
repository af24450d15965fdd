// SPDX-License-Identifier: Apache-2.0
// Makes the environment variables of a trainer from our own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// The environment as NAME=value: selected variables of ours, our PID as AUTOTUNED_PARENT_PID, CUDA_DEVICE_ORDER so that
// GPUs are numbered as nvidia-smi does (unless it is set), and the library path.
[[nodiscard]] std::vector<std::string> trainer_environment();

// The library path of a trainer, which is not ours: a toolkit's libraries there would take the place of those that
// LibTorch was built with. `libtorch`/lib, where that is not empty, serves a trainer that no longer finds LibTorch where
// it was at build time. Then those folders of `own_path` and of `driver_folders` that hold NVIDIA's driver and nothing
// else of CUDA: containers and clusters put it where the dynamic linker does not look.
[[nodiscard]] std::string trainer_library_path(std::string_view libtorch, std::string_view own_path,
                                               std::span<const char* const> driver_folders);

// The environment of a trainer for `configuration`: also with its env.NAME variables, the library of memory.allocator
// in LD_PRELOAD, and OMP_WAIT_POLICY=passive unless the configuration sets it. Any error means that the library cannot
// be used (find_allocator_library).
[[nodiscard]] Result<std::vector<std::string>> trainer_environment(
    const Configuration& configuration);

}  // namespace autotuned::daemon
