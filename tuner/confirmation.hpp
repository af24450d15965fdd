// SPDX-License-Identifier: Apache-2.0
// Trials that measure the kept configuration once more, in fresh blocks or processes: the whole against the
// starting configuration, and the whole against itself without one change. Errors of all functions: those of
// TrialSeries::run().
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/budget.hpp"
#include "tuner/context.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {

// The verification: a trial of a stored best configuration against the starting one. `reason` is stored with
// it. It has half of what is left of the budget, and all of it where the rest would not hold `pairs_of_next_trial` pairs
// of blocks.
[[nodiscard]] Result<void> verify(const SessionInput& input, const Budget& budget,
                                  TrialSeries& series, const Configuration& remembered,
                                  const std::string& reason, int pairs_of_next_trial);

// Ablates each marginal change in the rest of the budget, before the confirmation. Drops a change if the
// whole is not shown to be faster with it (drops_its_change()).
[[nodiscard]] Result<void> drop_marginal(const SessionInput& input, const Budget& budget,
                                         TrialSeries& series, Incumbent& incumbent);

// Confirms `incumbent` against the starting configuration. While a confirmation fails, drops the last
// accepted change and confirms what is left; ends with the starting configuration if nothing holds. A confirmation ends with
// the budget, but has time for the fewest pairs that decide.
[[nodiscard]] Result<void> confirm(const SessionInput& input, const Budget& budget,
                                   TrialSeries& series, Incumbent& incumbent);

// The verification among the trials of a run; null if there is none. Valid as long as `trials` does not change.
[[nodiscard]] const TrialRecord* verification_of(const std::vector<TrialRecord>& trials);

// The confirmation that `incumbent` passed, or its verification if nothing was added to a stored
// configuration; null if there is none. Valid until the next trial.
[[nodiscard]] const TrialRecord* confirmation_of(const Incumbent& incumbent,
                                                 const TrialSeries& series);

// Ablates each kept change after the confirmation (--ablate). The results are only reported: nothing is
// dropped. Not limited by the budget.
[[nodiscard]] Result<void> ablate(TrialSeries& series, const Incumbent& incumbent,
                                  const Configuration& starting);

}  // namespace autotuned::tuner
