// SPDX-License-Identifier: Apache-2.0
// The wall-clock time that a run may spend on tuning, summed over all processes of the run.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"

namespace autotuned::tuner {

// Counts time from its construction. The clock must outlive it.
class Budget {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  // `spent_before`: the tuning time that earlier processes of the same run used.
  Budget(nanoseconds whole, nanoseconds spent_before, const Clock& clock)
      : whole_(whole), spent_before_(spent_before), clock_(&clock), started_(clock.now()) {}

  [[nodiscard]] nanoseconds whole() const { return whole_; }
  [[nodiscard]] nanoseconds elapsed() const { return spent_before_ + (clock_->now() - started_); }
  // The rest of the budget; never negative.
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
