// SPDX-License-Identifier: Apache-2.0
// Two profiles side by side: what costs more than before, and what costs less.
#pragma once

#include <string>
#include <vector>

#include "profiler/analysis/profile.hpp"

namespace autotuned::analysis {

// Time of one step, mean over steps and ranks.
struct Change {
  std::string name;
  double before_ns = 0;
  double after_ns = 0;
  double before_calls = 0;  // in one step; 0 for parts
  double after_calls = 0;

  [[nodiscard]] double change_ns() const { return after_ns - before_ns; }
  friend bool operator==(const Change&, const Change&) = default;
};

// Memory, mean over ranks.
struct SizeChange {
  std::string name;
  double before_bytes = 0;
  double after_bytes = 0;

  [[nodiscard]] double change_bytes() const { return after_bytes - before_bytes; }
  friend bool operator==(const SizeChange&, const SizeChange&) = default;
};

// Each sorted by the size of the change, in whichever direction.
struct Difference {
  double before_step_ns = 0;
  double after_step_ns = 0;
  std::vector<Change> parts;
  std::vector<Change> operators;  // time by itself, on host and device together
  std::vector<Change> kernels;
  // Empty where neither recording has what they are made of, or was analysed at Depth::summary.
  std::vector<Change> modules;  // time by itself, forward and backward, on host and device together
  std::vector<Change> input;    // waits for batches, annotations of all threads, copies
  std::vector<SizeChange>
      memory;  // peaks of devices, and what operators take in one step by themselves
};

// All tables but that of parts cover the whole recording, and are divided by the number of steps: work outside
// of steps counts too. REQUIRES: neither is empty.
[[nodiscard]] Difference difference_of(const std::vector<Profile>& before,
                                       const std::vector<Profile>& after);

}  // namespace autotuned::analysis
