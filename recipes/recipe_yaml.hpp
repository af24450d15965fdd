// SPDX-License-Identifier: Apache-2.0
// A recipe written back as YAML that reads as the same recipe.
#pragma once

#include <string>

#include "base/configuration.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::recipes {

// The recipe that trains the same job from `best`: batch size, learning rate by the recipe's rule and the
// number of steps are those of the new batch; the other knobs that differ from their defaults stand under
// `start`.
[[nodiscard]] Recipe with_configuration(const Recipe& recipe, const Configuration& best,
                                        const std::vector<Knob>& knobs);

// `comment` goes on top, each line behind "# ".
[[nodiscard]] std::string to_yaml(const Recipe& recipe, const std::string& comment);

}  // namespace autotuned::recipes
