// SPDX-License-Identifier: Apache-2.0
// A child process and all processes that it started, including those that left its process group: their CPU time, and
// their end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autotuned {

// Returns the CPU time of all threads of a process so far, including threads that have ended. Exact to the nanosecond, unlike
// /proc. Returns nothing if there is no such process.
[[nodiscard]] std::optional<std::chrono::nanoseconds> cpu_time_of(pid_t process);

// What /proc/PID/stat says of a process.
struct ProcessStatus {
  pid_t number = 0;
  pid_t parent = 0;
  pid_t group = 0;
  std::int64_t reaped_ticks = 0;  // CPU time of its children that have ended
  std::int64_t start_ticks = 0;
  bool has_ended = false;  // and nobody has waited for it yet
};

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

  // Remembers who belongs to it, to be called before the leader is ended: then nobody descends from it any more.
  void look();
  // After the leader has ended: ends the others (SIGKILL) that have not ended by themselves within `grace`, except those of
  // its group, which whoever started it ends. Waits for their end, at most `limit`. Returns their numbers. Who has hidden
  // its environment is found only if look() has seen it.
  [[nodiscard]] std::vector<pid_t> end_rest(std::chrono::nanoseconds grace,
                                            std::chrono::nanoseconds limit);

 private:
  struct Process {
    pid_t number = 0;
    std::int64_t start_ticks = 0;  // since boot: distinguishes two processes with the same number
    friend auto operator<=>(const Process&, const Process&) = default;
  };
  [[nodiscard]] bool is_marked(Process process);
  // Of these processes; `has_leader`: its number still stands for it.
  [[nodiscard]] std::set<pid_t> members_of(const std::vector<ProcessStatus>& all, bool has_leader);
  [[nodiscard]] std::vector<Process> rest();

  pid_t leader_;
  std::string mark_;
  bool has_looked_ = false;
  std::map<Process, std::int64_t> cpu_ns_;  // CPU time of each member at the last call
  std::set<Process> seen_;                  // by look()
  // Kept for every process seen, because its environment does not change.
  std::map<Process, bool> is_marked_;
};

}  // namespace autotuned
