// SPDX-License-Identifier: Apache-2.0
// Two profiles side by side: what costs more than before, and what costs less.
#pragma once

#include <string>
#include <vector>

#include "profiler/analysis/profile.hpp"

namespace autotuned::analysis {

// A part of the time of one step before and after a change, as means over steps and ranks.
struct TimeChange {
  std::string name;
  double before_ns = 0;
  double after_ns = 0;
  double before_calls = 0;  // in one step; 0 for parts
  double after_calls = 0;

  [[nodiscard]] double change_ns() const { return after_ns - before_ns; }
  friend bool operator==(const TimeChange&, const TimeChange&) = default;
};

// Memory before and after a change, as means over ranks.
struct SizeChange {
  std::string name;
  double before_bytes = 0;
  double after_bytes = 0;

  [[nodiscard]] double change_bytes() const { return after_bytes - before_bytes; }
  friend bool operator==(const SizeChange&, const SizeChange&) = default;
};

// Each list is sorted by the absolute size of the change, largest first.
struct Difference {
  double before_step_ns = 0;
  double after_step_ns = 0;
  std::vector<TimeChange> parts;
  std::vector<TimeChange> operators;  // time by itself, on host and device together
  std::vector<TimeChange> kernels;
  // Empty if neither recording has the data, or if both were analysed at Depth::summary.
  std::vector<TimeChange>
      modules;  // time by itself, forward and backward, on host and device together
  std::vector<TimeChange> input;  // waits for batches, annotations of all threads, copies
  // Peaks of devices, and what each operator itself allocates in one step.
  std::vector<SizeChange> memory;
};

// Compares the profiles of all ranks. All tables except `parts` cover the whole recording, divided by the number of steps, so work
// outside of steps counts, too. REQUIRES: neither list is empty.
[[nodiscard]] Difference difference_of(const std::vector<TraceProfile>& before,
                                       const std::vector<TraceProfile>& after);

}  // namespace autotuned::analysis
