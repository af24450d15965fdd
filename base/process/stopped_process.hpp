// SPDX-License-Identifier: Apache-2.0
// Whether a process is stopped (SIGSTOP), and how long it has been.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace autotuned {

// Whether a signal has stopped the process. False for one that a debugger has stopped, and for one that has ended.
[[nodiscard]] bool is_stopped(pid_t process);

// Measures how long a process has been stopped, by looks at it several times a second. If a look comes late, the process
// that looks may have stood still itself, and the other one for the same reason: the time between two looks counts as
// a second at most.
class StoppedTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StoppedTime(pid_t process) : process_(process) {}

  // Looks, and returns the time that it has been stopped without a break; 0 if it is not.
  std::chrono::nanoseconds look(Clock::time_point now);
  // As of the last look.
  [[nodiscard]] std::chrono::nanoseconds time() const { return time_; }

 private:
  pid_t process_;
  bool was_stopped_ = false;  // at the last look
  Clock::time_point last_;
  std::chrono::nanoseconds time_{0};
};

}  // namespace autotuned
