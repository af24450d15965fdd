// SPDX-License-Identifier: Apache-2.0
// Waits until a trainer that has answered is really idle: code of an extension may go on working in threads of its own.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/configuration.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// Waits until no thread of the process is running or wants to, and the process has used next to no CPU time, for three
// milliseconds. False when that has not come about within `limit`.
[[nodiscard]] bool wait_until_idle(pid_t process, std::chrono::nanoseconds limit);

// The limit of wait_until_idle() after `block`: much longer than an honest trainer needs. It is very short if the wait
// would be in vain: if the trainer did not become idle the last time (`was_busy`), or if threads of its
// configuration spin while they wait (env.OMP_WAIT_POLICY: active).
[[nodiscard]] std::chrono::nanoseconds idle_limit(const Configuration& configuration,
                                                  const Block& block, bool was_busy);

}  // namespace autotuned::daemon
