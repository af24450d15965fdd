// SPDX-License-Identifier: Apache-2.0
// The second look: proposals for the rest of the budget, when no plugin proposes anything more.
//
// A search that tries one change at a time, each in a short trial, misses three kinds of gain: one too small for the
// noise and the time of its trial, one in a part of the step that was small beside another that has been removed
// since, and one of two changes that only help together.
//
// A change that trains another model, needs too much memory or is not repaid is not tried again: `trials` are those
// that without_refused() leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"
#include "tuner/advisors.hpp"

namespace autotuned::tuner {

// Whether the trial was rejected for another reason than its rate: a failed check, the memory limit, or a one-time cost that is not
// repaid. `memory_limit_bytes`: 0 for no limit.
[[nodiscard]] bool is_refused(const TrialRecord& trial, std::int64_t memory_limit_bytes);

// Returns `trials` without those of a change that a trial refused (is_refused()), whatever the others of it have shown.
// Accepted trials stay.
[[nodiscard]] std::vector<TrialRecord> without_refused(std::vector<TrialRecord> trials,
                                                       std::int64_t memory_limit_bytes);

// Returns changes whose trial ran out of time with a median gain of at least `min_gain_ratio`, and that had no later trial; and changes
// whose only trial was disturbed, whatever its few pairs show and whatever it was compared with. The highest expected gain comes first.
// Each keeps the name of the plugin that proposed it.
[[nodiscard]] std::vector<Proposal> undecided_changes(const Configuration& incumbent,
                                                      const std::vector<TrialRecord>& trials,
                                                      double min_gain_ratio);

// Returns changes that lost against an earlier incumbent by no more than the noise of their pairs or `min_gain_ratio`, if changes
// accepted since then made the step at least a tenth shorter: now they save a larger share of it. Each appears once; the highest ratio
// comes first.
[[nodiscard]] std::vector<Proposal> near_misses_to_retry(
    const Configuration& incumbent, const std::vector<Configuration>& past_incumbents,
    const std::vector<TrialRecord>& trials, double min_gain_ratio);

// Returns joint changes of two knobs that are known to depend on each other. Either one knob was tried and lost (then it is combined
// with the earlier value of the other, which has changed since), or both lost. The highest product of the two ratios comes first. Pairs
// that are expected to lose much are left out.
[[nodiscard]] std::vector<Proposal> joint_changes(const Configuration& incumbent,
                                                  const std::vector<TrialRecord>& trials);

}  // namespace autotuned::tuner
