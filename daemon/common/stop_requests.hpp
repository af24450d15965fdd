// SPDX-License-Identifier: Apache-2.0
// Tells a second request to stop a run from a repeat of the first.
#pragma once

#include <chrono>
#include <optional>

namespace autotuned::daemon {

// `timeout` sends its signal to the process and to its group, a batch system to each process of a job: one stop arrives
// as several signals. A person who means the second one sends it later.
constexpr std::chrono::nanoseconds kOneStop = std::chrono::seconds(1);

class StopRequests {
 public:
  // Takes a signal that came at `now`, and returns whether it is a request of its own: the first signal, or one that
  // comes kOneStop or more after the last request. A terminal that closes causes several SIGHUPs, from the kernel and
  // from the shell: a SIGHUP after any request is none.
  [[nodiscard]] bool take(int signal, std::chrono::steady_clock::time_point now);

 private:
  std::optional<std::chrono::steady_clock::time_point> last_;  // request
};

}  // namespace autotuned::daemon
