// SPDX-License-Identifier: Apache-2.0
// What can be known of a recipe before its first step and takes its data or its model to know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/recipe.hpp"
#include "trainer/common/device.hpp"

namespace autotuned::trainer {

struct RecipeProblem {
  std::string key;  // of the recipe, such as "train.batch_size" or "input[1].resize"
  Error error;
};

struct RecipeCheck {
  std::vector<RecipeProblem> problems;
  std::vector<std::string> notes;    // what was not looked at, and what may not be meant so
  std::int64_t parameter_bytes = 0;  // of the model; 0: it was not built
};

// Opens the data, compiles the transforms, builds the model and lets it look at two black samples, all on the CPU:
// a GPU may be at work for others. Steps nothing. Problems are those of the recipe; an error is that the check
// itself could not be done.
[[nodiscard]] Result<RecipeCheck> check_recipe(const recipes::Recipe& recipe,
                                               const Configuration& configuration,
                                               const Machine& machine, const Devices& devices,
                                               std::vector<plugins::TrainerLibrary> libraries);

}  // namespace autotuned::trainer
