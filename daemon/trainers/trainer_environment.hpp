// SPDX-License-Identifier: Apache-2.0
// What a trainer sees of our own environment.
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// NAME=value: a list of variables of ours, our process as AUTOTUNED_PARENT_PID, and the library path.
// That is not ours: a toolkit's libraries there would take the place of those that LibTorch was built
// with. It is $AUTOTUNED_LIBTORCH/lib where that is set, and serves a trainer that no longer finds
// LibTorch where it was at build time.
[[nodiscard]] std::vector<std::string> trainer_environment();

// Of a trainer that is to work under `configuration`: with its env.NAME, the library that it wants for
// memory.allocator in LD_PRELOAD, and OMP_WAIT_POLICY=passive unless it names another. Whatever this fails
// with, the library cannot be used (find_allocator_library).
[[nodiscard]] Result<std::vector<std::string>> trainer_environment(
    const Configuration& configuration);

}  // namespace autotuned::daemon
