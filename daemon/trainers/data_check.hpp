// SPDX-License-Identifier: Apache-2.0
// What is wrong with a recipe that only its data, its model or its output folder can tell. A trainer is asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "plugins/host/loader.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

struct DataCheck {
  std::vector<recipes::Diagnostic> problems;
  std::vector<std::string> notes;    // what was not looked at, and why; what may not be meant so
  std::int64_t parameter_bytes = 0;  // of the model; 0: not known
  std::chrono::nanoseconds start_time{
      0};  // of the trainer alone, without what it loads; 0: not known
};

// Starts a trainer, on the CPU, for at most half a minute. `file` is the recipe as messages name it. A trainer that is
// not there, that is no trainer of ours or that takes too long leaves a note and no problem.
[[nodiscard]] DataCheck check_data_and_model(
    const recipes::Recipe& recipe, const std::filesystem::path& file,
    const std::vector<recipes::Knob>& knobs,
    const std::vector<plugins::FoundPlugin>& trainer_plugins);

// Adds what the free disk space and tune.budget do not suffice for, as far as it is known before the first step.
void add_shortages(const recipes::Recipe& recipe, const std::filesystem::path& file,
                   DataCheck& check);

// Why a trainer could not load the recipe, as the mistake at its place in the recipe, after all others have been told to
// `tell_other`. The error itself where the recipe is not at fault.
[[nodiscard]] Error as_recipe_problem(const Error& error, const recipes::Recipe& recipe,
                                      const std::vector<recipes::Knob>& knobs,
                                      const std::vector<plugins::FoundPlugin>& trainer_plugins,
                                      const std::function<void(const std::string&)>& tell_other);

// Why results cannot be written into this folder; empty where they can. Writes nothing itself.
[[nodiscard]] std::string output_refusal(const std::filesystem::path& folder);

// The same of the recipe's output folder, as the mistake at its place in the recipe, or nothing.
[[nodiscard]] std::vector<recipes::Diagnostic> output_problems(const recipes::Recipe& recipe,
                                                               const std::filesystem::path& file);

// What the recipe's ranks cannot do yet (recipes::refuse_ranks), at train.ranks.
[[nodiscard]] std::vector<recipes::Diagnostic> rank_problems(const recipes::Recipe& recipe,
                                                             const std::filesystem::path& file);

}  // namespace autotuned::daemon
