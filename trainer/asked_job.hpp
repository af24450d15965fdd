// SPDX-License-Identifier: Apache-2.0
// Reads the job from a request of docs/trainer-protocol.md. No LibTorch here.
#pragma once

#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

// The job as the requests `load`, `check` and `predict` describe it.
struct AskedJob {
  recipes::Recipe recipe;
  Configuration configuration;
  std::vector<plugins::TrainerLibrary> libraries;
};

// ErrorKind::invalid names a field that is missing or wrong; errors of plugins name their files.
[[nodiscard]] Result<AskedJob> asked_of(const Json& request);

}  // namespace autotuned::trainer
