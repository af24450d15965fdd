// SPDX-License-Identifier: Apache-2.0
// What a change costs once in a training, and whether the training repays it: filling a cache, recording a graph, what an
// extension does when it is switched on. No block shows it (docs/statistics.md, "What a change costs once"). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::tuner {

struct OneTimeCost {
  double ns = 0.0;
  // Samples that were made by it, such as those of a cache: in a training, the first visit of each saves nothing.
  double samples = 0.0;
};

// Of one training, in seconds.
struct Repayment {
  double cost_s = 0.0;
  double saved_s = 0.0;
  double training_s = 0.0;  // without the change

  [[nodiscard]] bool is_repaid() const { return cost_s <= 0.0 || saved_s > cost_s; }
};

// How many samples the recipe trains with, or a script still does, by the answer to `load`; 0: not known.
[[nodiscard]] std::int64_t training_samples(const recipes::Recipe& recipe, const Json& job_facts);

// What the knobs of a change do once, in words ("making the samples once"); empty where none says that it does anything.
// Nobody knows what the code of an extension does.
[[nodiscard]] std::string one_time_work(const Configuration& change,
                                        const std::vector<recipes::Knob>& knobs,
                                        const std::vector<std::string>& extension_knobs);

// What is charged for it, in nanoseconds: what it took, and at least what the first visit of its samples would have saved.
// A training makes them on its way, at the reference's rate, where a trial makes them before its first block, on every
// CPU. `ratio` is the candidate's rate over the reference's.
[[nodiscard]] std::int64_t charged_ns(const OneTimeCost& seen, double reference_samples_per_second,
                                      double ratio);

// What the parts of `change` were charged in earlier trials, each part once: what one process has done already is not
// seen in it again.
[[nodiscard]] std::int64_t known_one_time_ns(const std::vector<TrialRecord>& trials,
                                             const Configuration& change);

// In a training of so many samples, by the rates of a trial and what it was charged. In one of unknown length (0) nothing is
// charged.
[[nodiscard]] Repayment repayment_of(const TrialRecord& trial, std::int64_t samples);

// `best` with the values of `starting` for what was accepted in `trials` and a training of so many samples does not repay.
[[nodiscard]] Configuration without_unrepaid(Configuration best, const Configuration& starting,
                                             const std::vector<TrialRecord>& trials,
                                             std::int64_t samples);
// Whether `best` lacks a change that such a training repays: accepted in a longer one, or refused in a shorter one.
[[nodiscard]] bool lacks_repaid(const Configuration& best, const std::vector<TrialRecord>& trials,
                                std::int64_t samples);

}  // namespace autotuned::tuner
