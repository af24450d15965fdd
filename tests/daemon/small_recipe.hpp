// SPDX-License-Identifier: Apache-2.0
// A recipe that needs no files.
#pragma once

#include "base/machine/machine.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

[[nodiscard]] inline recipes::Recipe small_recipe() {
  return *recipes::parse_recipe(
      "autotuned: 1\n"
      "name: small\n"
      "model: {type: mlp, hidden: 16, classes: 4}\n"
      "data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}\n"
      "optimizer: {type: sgd, lr: 0.1}\n"
      "train: {epochs: 1, batch_size: 8}\n",
      "recipe.yaml", recipes::knobs_of(Machine{}));
}

}  // namespace autotuned::daemon
