// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/stopped_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <utility>

#include "base/text.hpp"

namespace autotuned::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How many times in a row a process must be seen stopped.
constexpr int kLooks = 20;

bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  if (!std::getline(file, stat)) return false;
  // "7 (name) T 1 ...", where the name may hold anything.
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] == 'T';
}

}  // namespace

StoppedWatch::StoppedWatch(std::vector<Watched> watched, milliseconds limit)
    : watched_(std::move(watched)), thread_([this, limit] { look_until_over(limit); }) {}

StoppedWatch::~StoppedWatch() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  thread_.join();
}

bool StoppedWatch::has_ended(pid_t process) const {
  const std::scoped_lock lock(mutex_);
  return ended_.contains(process);
}

void StoppedWatch::look_until_over(milliseconds limit) {
  const milliseconds pause = std::max(limit / kLooks, milliseconds(1));
  std::vector<int> seen(watched_.size(), 0);
  auto last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, pause, [this] { return is_over_; })) {
    // A look that comes late comes after this process stood still itself: so may have the others.
    const auto now = Clock::now();
    if (std::exchange(last, now) + 2 * pause < now) std::ranges::fill(seen, 0);
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const Watched& one = watched_[i];
      seen[i] = is_stopped(one.process) ? seen[i] + 1 : 0;
      if (seen[i] < kLooks || !ended_.insert(one.process).second) continue;
      std::fputs((one.name + " was stopped (SIGSTOP) for " + format_duration(limit) +
                  " and has been ended\n")
                     .c_str(),
                 stderr);
      ::kill(one.process, SIGKILL);
    }
  }
}

}  // namespace autotuned::trainer
