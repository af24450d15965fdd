// SPDX-License-Identifier: Apache-2.0
// The mark of a run without a daemon. Its session, its trainers and what these start carry in kJobVariable which process
// does the run. Whatever outlives that process, say because it has left its group, is found by the mark, and ended before
// a device is used again.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace autotuned::daemon {

// Of this process: its number and when it started, which no other one has while the machine runs.
[[nodiscard]] std::string own_mark();

// SIGKILL to every other process that carries our mark; waits until they are gone, `limit` at most. Returns how many there
// were: what a run has started, and what its session could not end because it had left the group of its trainer.
std::size_t end_own(std::chrono::nanoseconds limit);

// Whether `mark` names a process that has ended. False for what is no such mark, such as the token of a daemon's job, and
// where it cannot be found out.
[[nodiscard]] bool is_left_behind(const std::string& mark);

// SIGKILL to every process of this user whose mark is left behind; waits until they are gone, `limit` at most. Returns how
// many there were. Those of another PID namespace are left alone: their numbers mean others here.
std::size_t end_left_behind(std::chrono::nanoseconds limit);

}  // namespace autotuned::daemon
