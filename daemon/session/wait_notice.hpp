// SPDX-License-Identifier: Apache-2.0
// Decides when a person is told that a session waits for a device. A value without a clock.
#pragma once

#include <chrono>
#include <optional>

namespace autotuned::daemon {

// It is told at the first look and then once a minute, so that a log shows whether anything still happens.
class WaitNotice {
 public:
  // A look at the time `now` has found the device taken. Returns the time waited so far if it is to be told now.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> look(std::chrono::nanoseconds now);
  // The whole wait, when the turn comes at the time `now`; nothing if there was none.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> waited(std::chrono::nanoseconds now) const;

 private:
  std::optional<std::chrono::nanoseconds> since_;
  std::chrono::nanoseconds next_{0};
};

}  // namespace autotuned::daemon
