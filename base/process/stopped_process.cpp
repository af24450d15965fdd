// SPDX-License-Identifier: Apache-2.0
#include "base/process/stopped_process.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/file.hpp"

namespace autotuned {
namespace {

constexpr std::size_t kMaxStateBytes = 4096;
constexpr std::chrono::nanoseconds kMostBetweenLooks = std::chrono::seconds(1);

}  // namespace

bool is_stopped(pid_t process) {
  const auto stat = read_file("/proc/" + std::to_string(process) + "/stat", kMaxStateBytes);
  if (!stat) return false;
  // "7 (name) T 1 ...", where the name may hold anything.
  const std::size_t name_end = stat->rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat->size() &&
         (*stat)[name_end + 2] == 'T';
}

std::chrono::nanoseconds StoppedTime::look(Clock::time_point now) {
  const bool is_now = is_stopped(process_);
  if (!is_now) {
    time_ = std::chrono::nanoseconds(0);
  } else if (was_stopped_) {
    time_ += std::min<std::chrono::nanoseconds>(now - last_, kMostBetweenLooks);
  }
  was_stopped_ = is_now;
  last_ = now;
  return time_;
}

}  // namespace autotuned
