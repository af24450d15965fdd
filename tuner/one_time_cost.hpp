// SPDX-License-Identifier: Apache-2.0
// The one-time cost of a change (filling a cache, recording a graph, switching an extension on), which no
// block shows, and whether a training repays it (docs/statistics.md, "What a change costs once"). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "recipes/recipe.hpp"
#include "tuner/context.hpp"

namespace autotuned::tuner {

// Work that a process does once.
struct OneTimeCost {
  double ns = 0.0;
  // Samples that the work made, such as those of a cache. In a training, the first visit of each of them
  // saves nothing.
  double samples = 0.0;
};

// Cost and saving of a change in one training, in seconds.
struct Repayment {
  double cost_s = 0.0;
  double saved_s = 0.0;
  double training_s = 0.0;  // length of the training without the change

  [[nodiscard]] bool is_repaid() const { return cost_s <= 0.0 || saved_s > cost_s; }
};

// The number of samples that the recipe trains with, or that a script still trains with, from the answer to
// `load`; 0: not known.
[[nodiscard]] std::int64_t training_samples(const recipes::Recipe& recipe, const Json& job_facts);

// Returns the one-time work of a change, in words ("making the samples once"); empty if none of its knobs has any. The one-time work of
// an extension is not known, so its knobs count as having some.
[[nodiscard]] std::string one_time_work(const SessionInput& input, const Configuration& change);

// Returns the one-time cost that is charged to a change, in nanoseconds: the measured time, but at least the time that the change would
// have saved at the first visit of its samples; 0 below a millisecond. (A trial makes these samples before its first block, on every
// CPU. A training makes them on the way, at the rate of the reference.) `ratio`: the candidate's rate over the reference's.
[[nodiscard]] std::int64_t charged_ns(const OneTimeCost& seen, double reference_samples_per_second,
                                      double ratio);

// Returns the one-time costs, in nanoseconds, that were charged to parts of `change` in earlier trials. Each part counts once. They are
// needed because a process that has done the work once does not show its cost again.
[[nodiscard]] std::int64_t known_one_time_ns(const std::vector<TrialRecord>& trials,
                                             const Configuration& change);

// Returns cost and saving of a change in a training of `samples` samples, from the rates and the one-time cost of its trial. For an
// unknown length (0) the cost is 0.
[[nodiscard]] Repayment repayment_of(const TrialRecord& trial, std::int64_t samples);

// Returns `best` without the changes that `trials` accepted but a training of `samples` samples does not repay: their knobs get their
// values in `starting`.
[[nodiscard]] Configuration without_unrepaid(Configuration best, const Configuration& starting,
                                             const std::vector<TrialRecord>& trials,
                                             std::int64_t samples);
// Whether a training of `samples` samples repays a change that `best` lacks, because an earlier run accepted it for a longer training
// or refused it for a shorter one.
[[nodiscard]] bool lacks_repaid(const Configuration& best, const std::vector<TrialRecord>& trials,
                                std::int64_t samples);

}  // namespace autotuned::tuner
