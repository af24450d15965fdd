// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/stopped_watch.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/process/stopped_process.hpp"
#include "base/text.hpp"

namespace autotuned::trainer {
namespace {

using std::chrono::milliseconds;

// How often a process is looked at within the limit.
constexpr int kLooks = 20;

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
  std::vector<StoppedTime> stopped;
  for (const Watched& one : watched_)
    stopped.emplace_back(one.process);
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, pause, [this] { return is_over_; })) {
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const Watched& one = watched_[i];
      const auto time = stopped[i].look(StoppedTime::Clock::now());
      if (time < limit || !ended_.insert(one.process).second) continue;
      std::fputs((one.name + " was stopped (SIGSTOP) for " + format_duration(limit) +
                  " and has been ended\n")
                     .c_str(),
                 stderr);
      ::kill(one.process, SIGKILL);
    }
  }
}

}  // namespace autotuned::trainer
