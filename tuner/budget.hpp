// SPDX-License-Identifier: Apache-2.0
// The time that a run may spend on its tuning, over all of its processes.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"

namespace autotuned::tuner {

// Runs from its construction on. The clock must outlive it.
class Budget {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  // `spent_before`: by earlier processes of the run.
  Budget(nanoseconds whole, nanoseconds spent_before, const Clock& clock)
      : whole_(whole), spent_before_(spent_before), clock_(&clock), started_(clock.now()) {}

  [[nodiscard]] nanoseconds whole() const { return whole_; }
  [[nodiscard]] nanoseconds elapsed() const { return spent_before_ + (clock_->now() - started_); }
  // Never negative.
  [[nodiscard]] nanoseconds remaining() const {
    return std::max(nanoseconds{0}, whole_ - elapsed());
  }

 private:
  nanoseconds whole_;
  nanoseconds spent_before_;
  const Clock* clock_;
  nanoseconds started_;
};

}  // namespace autotuned::tuner
