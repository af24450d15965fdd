// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/session_control.hpp"

#include <chrono>
#include <utility>

namespace autotuned::daemon {

bool SessionControl::is_requested() {
  while (!is_requested_) {
    auto frame = channel_.receive(std::chrono::nanoseconds(0));
    if (!frame) {
      if (frame.error().kind != ErrorKind::timeout) is_requested_ = true;
      break;
    }
    is_requested_ = get_string(*frame, "request").value_or("") == "cancel";
    if (is_requested_) cancel_ = *std::move(frame);
  }
  return is_requested_;
}

void SessionControl::wait_for_cancel() {
  while (!is_requested())
    (void)wait_readable(channel_.descriptor(), std::chrono::nanoseconds(-1));
}

bool SessionControl::wait_for_cancel(std::chrono::nanoseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  while (!is_requested()) {
    const std::chrono::nanoseconds left = end - Clock::now();
    if (left <= std::chrono::nanoseconds(0)) return false;
    (void)wait_readable(channel_.descriptor(), left);
  }
  return true;
}

Result<Json> SessionControl::receive_request() {
  return channel_.receive(std::chrono::seconds(10));
}

void SessionControl::report(const Json& event) {
  if (!channel_.send(event)) is_requested_ = true;
}

}  // namespace autotuned::daemon
