// SPDX-License-Identifier: Apache-2.0
// Decides when a trainer that was just started has reached its final speed.
#pragma once

#include <chrono>

namespace autotuned::daemon {

// Steps that take longer get fewer blocks and steps of warm-up.
inline constexpr std::chrono::nanoseconds kSlowStep = std::chrono::seconds(1);

// Takes untimed blocks, one after the other. Over when three blocks in a row were not faster than the fastest before
// them by more than 2 %; after 20 blocks or 3 s in any case. Steps of over a second are warm after two blocks, and more
// would cost the trials their budget.
class WarmUp {
 public:
  // The least duration of a warm-up block.
  static constexpr std::chrono::nanoseconds kBlock = std::chrono::milliseconds(50);

  // REQUIRES: `steps` above 0.
  void add(double samples_per_second, std::chrono::nanoseconds duration, long steps);
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  double fastest_ = 0.0;
  int blocks_ = 0;
  int flat_blocks_ = 0;  // in a row
  std::chrono::nanoseconds duration_{0};
  bool is_over_ = false;
};

}  // namespace autotuned::daemon
