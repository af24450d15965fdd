// SPDX-License-Identifier: Apache-2.0
// Finds the mistakes in a recipe that show before its first step, but only with its data or its model.
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
  std::vector<std::string> notes;    // parts that were not checked, and probable mistakes
  std::int64_t parameter_bytes = 0;  // of the model; 0: it was not built
};

// Opens the data, compiles the transforms, builds the model and runs it on two black samples, all on the CPU, because a
// GPU may be in use. Makes no step. Problems are mistakes in the recipe; an error means that the check itself failed.
[[nodiscard]] Result<RecipeCheck> check_recipe(const recipes::Recipe& recipe,
                                               const Configuration& configuration,
                                               const Machine& machine, const Devices& devices,
                                               std::vector<plugins::TrainerLibrary> libraries);

}  // namespace autotuned::trainer
