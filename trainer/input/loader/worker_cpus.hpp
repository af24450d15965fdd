// SPDX-License-Identifier: Apache-2.0
// Which CPUs the threads of a loader run on.
#pragma once

#include <span>
#include <thread>

#include "base/result.hpp"

namespace autotuned::input {

enum class Affinity {
  any,   // those that the calling thread may run on
  apart  // the same but the one on which it runs now, so that it finds that one free
};

// The calling thread stays as it is; where it may run on one CPU only, all stay as they are. ErrorKind::unsupported: the system does not allow it, and some of them may run
// elsewhere now.
[[nodiscard]] Result<void> place_threads(std::span<std::jthread> threads, Affinity affinity);

}  // namespace autotuned::input
