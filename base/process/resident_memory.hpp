// SPDX-License-Identifier: Apache-2.0
// The resident memory of processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace autotuned {

// Of the whole process, pages of mapped files included; 0 when it is gone.
[[nodiscard]] std::int64_t resident_bytes(pid_t process);

// Of a process that leads a group, and of the others in it: what it has started and what these have, save those that left
// for a group of their own. One thread.
class ResidentGroup {
 public:
  explicit ResidentGroup(pid_t leader) : leader_(leader) {}

  // The sum of what they hold; 0 when they are gone. A page that several share, as after fork(), counts in each, which is
  // too much but cheap to know. Only where that is more than `enough_bytes` is it counted once, as the sum of their
  // proportional shares (PSS), for which the kernel walks through all of their pages. A new process counts after a second
  // at the latest: to find it, all processes of the machine have to be looked at.
  std::int64_t held_bytes(std::int64_t enough_bytes);

  // At the last look, with the leader.
  [[nodiscard]] std::size_t processes() const { return members_.size(); }

 private:
  void find_members();

  pid_t leader_;
  std::vector<pid_t> members_;
  std::chrono::steady_clock::time_point found_;
};

}  // namespace autotuned
