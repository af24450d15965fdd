// SPDX-License-Identifier: Apache-2.0
// The rate of the starting configuration, measured before anything else.
#pragma once

#include <chrono>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// The measured starting configuration.
struct Baseline {
  double samples_per_second = 0.0;        // the median of the blocks
  std::chrono::nanoseconds pair_time{1};  // wall-clock time of two blocks
  // A block takes more than a second, so a trial has time for few blocks.
  bool has_slow_blocks = false;
};

// Measures the baseline and writes it to the ledger. A block that is disturbed (Error::is_disturbance) is measured once
// more. Errors: of the blocks (with a remedy, unless they were disturbed) or of the ledger.
[[nodiscard]] Result<Baseline> measure_baseline(const SessionInput& input, TrainingBackend& backend,
                                                Ledger& ledger, const Clock& clock);

}  // namespace autotuned::tuner
