// SPDX-License-Identifier: Apache-2.0
// The CPU time of a child process and of all processes that it started, also of those that left its group.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace autotuned {

// The CPU time of all threads of a process so far, also of those that have ended; to the nanosecond, other than what
// /proc says. Nothing where there is no such process.
[[nodiscard]] std::optional<std::chrono::nanoseconds> cpu_time_of(pid_t process);

// A process that leads a group, the members of that group, its descendants, and processes of this user that
// carry `mark` (NAME=value) in their environment: those that left the group and lost their parents. One that
// does all of this and clears its environment is found where the leader adopts orphans (base/process/process.hpp). One thread.
class ProcessFamily {
 public:
  ProcessFamily(pid_t leader, std::string mark) : leader_(leader), mark_(std::move(mark)) {}

  // The CPU time that the family used since the previous look; 0 at the first. All processes of the machine have
  // to be looked at, which takes some milliseconds. A process that started in between counts with all of its time.
  // One that ended in between counts with what its parent in the family has reaped, to 10 ms.
  std::chrono::nanoseconds cpu_time_since_last_look();

 private:
  struct Process {
    pid_t number = 0;
    std::int64_t start_ticks = 0;  // since boot: tells two processes of one number apart
    friend auto operator<=>(const Process&, const Process&) = default;
  };
  [[nodiscard]] bool is_marked(Process process);

  pid_t leader_;
  std::string mark_;
  bool has_looked_ = false;
  std::map<Process, std::int64_t> cpu_ns_;  // of the members at the last look
  std::map<Process, bool> is_marked_;       // of every process seen: environments stay as they are
};

}  // namespace autotuned
