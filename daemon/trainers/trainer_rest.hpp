// SPDX-License-Identifier: Apache-2.0
// Whether a trainer that has answered is really done: code of an extension may go on working in threads of its own.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// Waits until no thread of the process is running or wants to, and the process has used next to no CPU time, for three
// milliseconds. False when that has not come about within `limit`.
[[nodiscard]] bool wait_for_rest(pid_t process, std::chrono::nanoseconds limit);

// Waits for that after a block that was asked for at `begin`, and gives what time has passed since. 0 where threads of this
// configuration spin while they wait (env.OMP_WAIT_POLICY: active), so that nothing can be seen. ErrorKind::unsupported
// where the trainer works on for very much longer than the block took.
[[nodiscard]] Result<std::chrono::nanoseconds> see_block_out(
    pid_t trainer, const Configuration& configuration, std::chrono::steady_clock::time_point begin,
    const Block& block);

}  // namespace autotuned::daemon
