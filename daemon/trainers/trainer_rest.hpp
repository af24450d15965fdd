// SPDX-License-Identifier: Apache-2.0
// Whether a trainer that has answered is really done: code of an extension may go on working in threads of its own.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/configuration.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// Waits until no thread of the process is running or wants to, and the process has used next to no CPU time, for three
// milliseconds. False when that has not come about within `limit`.
[[nodiscard]] bool wait_for_rest(pid_t process, std::chrono::nanoseconds limit);

// How long that is waited for after `block`: much longer than what a trainer may honestly have left to do. A moment where
// the wait would be in vain: if the trainer did not come to rest the last time (`was_restless`), or if threads of its
// configuration spin while they wait (env.OMP_WAIT_POLICY: active).
[[nodiscard]] std::chrono::nanoseconds rest_limit(const Configuration& configuration,
                                                  const Block& block, bool was_restless);

}  // namespace autotuned::daemon
