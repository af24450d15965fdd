// SPDX-License-Identifier: Apache-2.0
// The CPU time of a child process and of all processes that it started, including those that left its process
// group.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace autotuned {

// Returns the CPU time of all threads of a process so far, including threads that have ended. Exact to the nanosecond, unlike
// /proc. Returns nothing if there is no such process.
[[nodiscard]] std::optional<std::chrono::nanoseconds> cpu_time_of(pid_t process);

// A process family: a process that leads a group, the members of that group, its descendants, and processes
// of this user that carry `mark` (NAME=value) in their environment, which finds those that left the group and
// lost their parents. A process that also clears its environment is found only if the leader adopts orphans
// (base/process/process.hpp). One thread.
class ProcessFamily {
 public:
  ProcessFamily(pid_t leader, std::string mark) : leader_(leader), mark_(std::move(mark)) {}

  // Returns the CPU time that the family used since the previous call; 0 at the first call. Reads all processes of the machine,
  // which takes some milliseconds. A process that started in between counts with all of its time. A process that ended in between
  // counts with the time that its parent in the family has reaped, exact to 10 ms.
  std::chrono::nanoseconds cpu_time_since_last_look();

 private:
  struct Process {
    pid_t number = 0;
    std::int64_t start_ticks = 0;  // since boot: distinguishes two processes with the same number
    friend auto operator<=>(const Process&, const Process&) = default;
  };
  [[nodiscard]] bool is_marked(Process process);

  pid_t leader_;
  std::string mark_;
  bool has_looked_ = false;
  std::map<Process, std::int64_t> cpu_ns_;  // CPU time of each member at the last call
  // Kept for every process seen, because its environment does not change.
  std::map<Process, bool> is_marked_;
};

}  // namespace autotuned
