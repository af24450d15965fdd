// SPDX-License-Identifier: Apache-2.0
#include "base/process/kill_processes.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/descriptor.hpp"

// glibc 2.36 declares these without saying that they are C; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

namespace autotuned {

std::vector<pid_t> kill_processes(const std::vector<pid_t>& processes,
                                  const std::function<bool(pid_t)>& is_meant,
                                  std::chrono::steady_clock::time_point give_up) {
  using Clock = std::chrono::steady_clock;
  std::vector<pid_t> killed;
  std::vector<Descriptor> ends;
  for (const pid_t process : processes) {
    Descriptor watched(::pidfd_open(process, 0));
    if (!watched.is_open() || !is_meant(process)) continue;
    if (::pidfd_send_signal(watched.get(), SIGKILL, nullptr, 0) != 0) continue;
    killed.push_back(process);
    ends.push_back(std::move(watched));
  }
  for (const Descriptor& end : ends) {
    const Clock::duration left = give_up - Clock::now();
    static_cast<void>(wait_readable(end.get(), std::max(left, Clock::duration{0})));
  }
  return killed;
}

}  // namespace autotuned
