// SPDX-License-Identifier: Apache-2.0
// A recipe written back as YAML that reads as the same recipe.
#pragma once

#include <string>

#include "base/configuration.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::recipes {

// Returns the recipe that trains the same job with `best`. It has the batch size of `best`, with the learning rate (by the recipe's
// rule) and the number of steps that belong to it. The other knobs that differ from their defaults are under `start`.
[[nodiscard]] Recipe with_configuration(const Recipe& recipe, const Configuration& best,
                                        const std::vector<Knob>& knobs);

// `comment`: text for the top of the file. Each line of it gets "# " in front.
[[nodiscard]] std::string to_yaml(const Recipe& recipe, const std::string& comment);

}  // namespace autotuned::recipes
