// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/wait_notice.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::chrono::nanoseconds kBetweenNotices = std::chrono::minutes(1);

}  // namespace

std::optional<std::chrono::nanoseconds> WaitNotice::look(std::chrono::nanoseconds now) {
  if (!since_) {
    since_ = now;
    next_ = now;
  }
  if (now < next_) return std::nullopt;
  next_ = now + kBetweenNotices;
  return now - *since_;
}

std::optional<std::chrono::nanoseconds> WaitNotice::waited(std::chrono::nanoseconds now) const {
  if (!since_) return std::nullopt;
  return now - *since_;
}

}  // namespace autotuned::daemon
