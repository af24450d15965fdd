// SPDX-License-Identifier: Apache-2.0
// What is left of configurations, trials and runs when a plugin, and with it its knobs, is gone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The values of knobs that are known, and of those that are not.
[[nodiscard]] Configuration known_part(const std::vector<recipes::Knob>& knobs,
                                       const Configuration& configuration);
[[nodiscard]] Configuration unknown_part(const std::vector<recipes::Knob>& knobs,
                                         const Configuration& configuration);

// The trial as one of a run that starts from `starting`, which has a value for each known knob; nothing when
// its change turns a knob that is not known.
[[nodiscard]] std::optional<TrialRecord> known_trial(const std::vector<recipes::Knob>& knobs,
                                                     const Configuration& starting,
                                                     TrialRecord trial);

// What is left of a remembered best configuration, which may be from before a plugin was removed; nothing where
// that is the start, of which nothing is known then.
[[nodiscard]] std::optional<Configuration> known_best(const std::vector<recipes::Knob>& knobs,
                                                      const Configuration& starting,
                                                      const Configuration& best);

// Makes the configurations of a stored run whole for these knobs: without those that are not known, and with
// the values of `recipe` for those that it lacks. Says what the run goes on without, in sentences, changes that
// its `trials` have kept included. `recipe` starts from known knobs only.
[[nodiscard]] std::vector<std::string> drop_unknown_knobs(const std::vector<recipes::Knob>& knobs,
                                                          const recipes::Recipe& recipe,
                                                          const std::vector<TrialRecord>& trials,
                                                          storage::RunRow& run);

}  // namespace autotuned::daemon
