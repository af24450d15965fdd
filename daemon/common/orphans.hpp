// SPDX-License-Identifier: Apache-2.0
// Finds and ends the processes of a run, wherever they are: all carry the run's mark in their environment.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace autotuned::daemon {

// The variable in the environment of sessions, trainers and their children. Its value is the token of the run.
inline constexpr const char* kMarkVariable = "AUTOTUNED_JOB";

// The most bytes of a process's environment that are searched for the mark: more than one variable can have, and the
// mark is among the first.
inline constexpr std::size_t kMaxEnvironmentBytes = std::size_t{4} << 20U;

// The processes of this user that carry one of these tokens, without this one.
[[nodiscard]] std::vector<pid_t> processes_of(const std::set<std::string>& tokens);

// Sends SIGKILL to the processes of processes_of() and waits until they are gone, at most `limit`. Returns how many
// there were. A process that hides its mark is not found. A process that the kernel cannot end stays, and keeps the
// lock of its device.
std::size_t end_processes_of(const std::set<std::string>& tokens, std::chrono::nanoseconds limit);

}  // namespace autotuned::daemon
