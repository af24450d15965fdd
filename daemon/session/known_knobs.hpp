// SPDX-License-Identifier: Apache-2.0
// Fits stored configurations, trials and runs to the present knobs: a plugin may have been removed since, and its knobs
// with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The part of `configuration` whose knobs are in `knobs`, and the rest of it.
[[nodiscard]] Configuration known_part(const std::vector<recipes::Knob>& knobs,
                                       const Configuration& configuration);
[[nodiscard]] Configuration unknown_part(const std::vector<recipes::Knob>& knobs,
                                         const Configuration& configuration);

// The trial with configurations over the known knobs. `starting` has a value for each of them. Nothing if the trial's
// change sets an unknown knob.
[[nodiscard]] std::optional<TrialRecord> known_trial(const std::vector<recipes::Knob>& knobs,
                                                     const Configuration& starting,
                                                     TrialRecord trial);

// The known part of a remembered best configuration, which may have knobs of a plugin that was removed since. Nothing if
// that part is the start: then no best configuration is known.
[[nodiscard]] std::optional<Configuration> known_best(const std::vector<recipes::Knob>& knobs,
                                                      const Configuration& starting,
                                                      const Configuration& best);

// Checks that this machine can have every value of `configuration`, with which run `run` trained: a smaller machine allows fewer
// threads. Unknown knobs are left out. The error names the knob, both numbers and what to do; `otherwise`: what can be done without
// a machine like that of the run, for the remedy.
[[nodiscard]] Result<void> check_values(const std::vector<recipes::Knob>& knobs,
                                        const Configuration& configuration, const std::string& run,
                                        const std::string& otherwise);

// Fits the configurations of a stored run, also those that its training fell back to, to `knobs`: leaves out unknown
// knobs, and adds missing ones with their values in `recipe`, which starts from known knobs only. Returns sentences that
// say what the run goes on without, also changes that its `trials` have kept.
[[nodiscard]] std::vector<std::string> drop_unknown_knobs(const std::vector<recipes::Knob>& knobs,
                                                          const recipes::Recipe& recipe,
                                                          const std::vector<TrialRecord>& trials,
                                                          storage::RunRow& run);

}  // namespace autotuned::daemon
