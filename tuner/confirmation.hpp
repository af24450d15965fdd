// SPDX-License-Identifier: Apache-2.0
// What is kept is shown once more, in fresh blocks or processes: the whole against the starting configuration, and against
// itself without one of its changes. Errors of all: those of trials.
#pragma once

#include <string>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/budget.hpp"
#include "tuner/context.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {

inline constexpr int kConfirmationPairs = 10;  // the fewest that a confirmation is given time for

// A trial of a remembered best configuration against the starting one.
[[nodiscard]] Result<void> verify(const SessionInput& input, const Budget& budget,
                                  TrialSeries& series, const Configuration& remembered,
                                  const std::string& reason);

// Before the confirmation, in what is left of the budget: what was accepted by little is taken out of the whole, and
// given up when the whole is not shown to be faster with it (drops_its_change()).
[[nodiscard]] Result<void> drop_marginal(const SessionInput& input, const Budget& budget,
                                         TrialSeries& series, Incumbent& incumbent);

// Leaves in `incumbent` what holds against the starting configuration; the starting one when nothing does.
[[nodiscard]] Result<void> confirm(const SessionInput& input, const Budget& budget,
                                   TrialSeries& series, Incumbent& incumbent);

// The confirmation of `incumbent` that holds, or the verification of it where nothing was added; or null. Valid until the
// next trial.
[[nodiscard]] const TrialRecord* confirmation_of(const Incumbent& incumbent,
                                                 const TrialSeries& series);

// What each kept change gives now that the others are there. It only tells: nothing is given up. It is not limited by the
// budget.
[[nodiscard]] Result<void> ablate(TrialSeries& series, const Incumbent& incumbent,
                                  const Configuration& starting);

}  // namespace autotuned::tuner
