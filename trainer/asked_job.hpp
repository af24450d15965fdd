// SPDX-License-Identifier: Apache-2.0
// The job that a request of docs/trainer-protocol.md is about. No LibTorch here.
#pragma once

#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

// What the requests `load`, `check` and `predict` say of their job.
struct AskedJob {
  recipes::Recipe recipe;
  Configuration configuration;
  std::vector<plugins::TrainerLibrary> libraries;
};

// ErrorKind::invalid names a field that is missing or wrong; errors of plugins name their files.
[[nodiscard]] Result<AskedJob> asked_of(const Json& request);

}  // namespace autotuned::trainer
