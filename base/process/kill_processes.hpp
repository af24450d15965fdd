// SPDX-License-Identifier: Apache-2.0
// Ends processes that are no children of this one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

namespace autotuned {

// Sends SIGKILL to each of these processes that `is_meant` confirms, which is asked once the number can no longer become
// another process's. Waits for their end until `give_up`. Returns those that got the signal, in order.
[[nodiscard]] std::vector<pid_t> kill_processes(const std::vector<pid_t>& processes,
                                                const std::function<bool(pid_t)>& is_meant,
                                                std::chrono::steady_clock::time_point give_up);

}  // namespace autotuned
