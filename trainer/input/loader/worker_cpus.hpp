// SPDX-License-Identifier: Apache-2.0
// The CPUs of a loader's threads.
#pragma once

#include <span>
#include <thread>

#include "base/result.hpp"

namespace autotuned::input {

enum class Affinity {
  any,  // all CPUs of the calling thread
  apart  // the same without the CPU on which the calling thread runs now, so that this CPU stays free for it
};

// Sets the CPUs of `threads`, not those of the calling thread. Changes nothing if the calling thread has only one CPU.
// ErrorKind::unsupported: the system does not allow it; some threads may have other CPUs then.
[[nodiscard]] Result<void> place_threads(std::span<std::jthread> threads, Affinity affinity);

}  // namespace autotuned::input
