// SPDX-License-Identifier: Apache-2.0
// The processes of a job, wherever they are: all carry its mark in their environment.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace autotuned::daemon {

// The variable that sessions, trainers and what they start have, and its value: the token of the job.
inline constexpr const char* kJobVariable = "AUTOTUNED_JOB";

// How much of a process's environment is read for it: more than the kernel lets one variable take, and it stands
// among the first.
inline constexpr std::size_t kMaxEnvironmentBytes = std::size_t{4} << 20U;

// Processes of this user with one of these tokens, ourselves left out.
[[nodiscard]] std::vector<pid_t> processes_of(const std::set<std::string>& tokens);

// SIGKILL to each of them; waits until they are gone, `limit` at most. Returns how many there were.
// A process that hides its mark stays; so does one that the kernel does not let go of, and with it the
// lock of its device.
std::size_t end_processes_of(const std::set<std::string>& tokens, std::chrono::nanoseconds limit);

}  // namespace autotuned::daemon
