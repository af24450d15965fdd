// SPDX-License-Identifier: Apache-2.0
// What the time that is left is worth spending on when no plugin proposes anything more.
//
// One change at a time, each in a short trial, has three blind spots: a gain too small for the noise and the
// time that its trial was given, a part of the step that was small beside another that is gone by now, and two
// changes that only pay together.
//
// `trials` are those that are not refused: what trains another model, needs too much memory or is not
// repaid stays refused.
#pragma once

#include <cstdint>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"
#include "tuner/advisors.hpp"

namespace autotuned::tuner {

// Whether a check, the limit of memory or what it costs once ended it, whatever its rate. A limit of 0 is none.
[[nodiscard]] bool is_refused(const TrialRecord& trial, std::int64_t memory_limit_bytes);

// Changes that looked faster by at least `min_gain_ratio` when their trial ran out of time, and were not
// looked at again. The fastest first; under the name of the plugin that proposed them.
[[nodiscard]] std::vector<Candidate> undecided_changes(const Configuration& incumbent,
                                                       const std::vector<TrialRecord>& trials,
                                                       double min_gain_ratio);

// Changes that lost against an earlier incumbent by no more than the noise of their pairs or `min_gain_ratio`, where what was accepted since made the step at
// least a tenth shorter: what they save is a larger share of it now. Each once; the one with the highest ratio first.
[[nodiscard]] std::vector<Candidate> near_misses_to_retry(
    const Configuration& incumbent, const std::vector<Configuration>& past_incumbents,
    const std::vector<TrialRecord>& trials, double min_gain_ratio);

// Pairs of knobs that are known to depend on each other, of which one was tried and lost: that one together
// with the other's value from before it was changed, or two that both lost. The ones with the highest
// product of their own ratios first; none that is expected to lose much.
[[nodiscard]] std::vector<Candidate> joint_changes(const Configuration& incumbent,
                                                   const std::vector<TrialRecord>& trials);

}  // namespace autotuned::tuner
