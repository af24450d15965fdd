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

struct Baseline {
  double samples_per_second = 0.0;        // the median of its blocks
  std::chrono::nanoseconds pair_time{1};  // wall clock of two of its blocks
  // A block takes over a second: there is time for a few of them only, each of which has many steps.
  bool has_slow_blocks = false;
};

// Writes it to the ledger, too. Errors: those of the blocks, with a remedy, and of the ledger.
[[nodiscard]] Result<Baseline> measure_baseline(const SessionInput& input, TrainingBackend& backend,
                                                Ledger& ledger, const Clock& clock);

}  // namespace autotuned::tuner
