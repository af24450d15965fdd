// SPDX-License-Identifier: Apache-2.0
// The mark of a run without a daemon: it names the process that does the run. Its session, its trainers and their
// children carry it in kMarkVariable. A process that outlives the run, for example because it has left its process
// group, is found by the mark and ended before the device is used again.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace autotuned::daemon {

// The mark of this process: its PID and start time, which together are unique until the machine restarts.
[[nodiscard]] std::string own_mark();

// Sends SIGKILL to every other process with our mark and waits until they are gone, at most `limit`. Returns how many
// there were. These are processes that the session could not end, because they had left the process group of their
// trainer.
std::size_t end_own(std::chrono::nanoseconds limit);

// Whether `mark` names a process that has ended. False if `mark` is another kind of token, such as that of a daemon's
// run, or if this cannot be found out.
[[nodiscard]] bool is_left_behind(const std::string& mark);

// Sends SIGKILL to every process of this user whose mark is_left_behind(), and waits until they are gone, at most
// `limit`. Returns how many there were. Processes of another PID namespace are left alone: their PIDs mean other
// processes here.
std::size_t end_left_behind(std::chrono::nanoseconds limit);

}  // namespace autotuned::daemon
