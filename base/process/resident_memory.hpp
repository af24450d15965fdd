// SPDX-License-Identifier: Apache-2.0
// The memory of processes that is in RAM.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace autotuned {

// Returns the resident bytes of a process, including pages of mapped files; 0 if the process does not exist.
[[nodiscard]] std::int64_t resident_bytes(pid_t process);

// Measures the resident memory of a process group: its leader and its other processes. Descendants that left the group do not
// count. One thread at a time.
class ResidentGroup {
 public:
  explicit ResidentGroup(pid_t leader) : leader_(leader) {}

  // Returns the resident bytes of the group; 0 if all its processes have ended. A page that several processes share, as after
  // fork(), counts in each of them: this is cheap and too high. Only if the sum exceeds `enough_bytes` is each shared page counted
  // once (proportional share, PSS), for which the kernel walks through all pages. A new process counts after one second at the
  // latest, because finding it requires reading all processes of the machine.
  std::int64_t held_bytes(std::int64_t enough_bytes);

  // The number of processes at the last call of held_bytes(), the leader included.
  [[nodiscard]] std::size_t processes() const { return members_.size(); }

 private:
  void find_members();

  pid_t leader_;
  std::vector<pid_t> members_;
  std::chrono::steady_clock::time_point found_;
};

}  // namespace autotuned
