// SPDX-License-Identifier: Apache-2.0
// Time, behind an interface so that a whole session can be replayed in a test in milliseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace autotuned {

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  // Monotonic time; comparable between processes of one boot (CLOCK_MONOTONIC).
  [[nodiscard]] virtual std::chrono::nanoseconds now() const = 0;
  // The time of day, in nanoseconds since 1970 UTC, for records that people read.
  [[nodiscard]] virtual std::int64_t unix_time_ns() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds now() const override;
  [[nodiscard]] std::int64_t unix_time_ns() const override;
};

}  // namespace autotuned
