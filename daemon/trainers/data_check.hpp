// SPDX-License-Identifier: Apache-2.0
// Finds the mistakes in a recipe that only show with its data, its model or its output folder. Asks a trainer.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plugins/host/loader.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

struct DataCheck {
  std::vector<recipes::Diagnostic> problems;
  std::vector<std::string> notes;    // parts that were not checked, and why; probable mistakes
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

// The note that a trainer did not look at data and model because of this error. `has_started`: it had said hello.
[[nodiscard]] std::string unlooked_text(const Error& error, bool has_started);

// Adds what the free disk space and tune.budget do not suffice for, as far as it is known before the first step.
void add_shortages(const recipes::Recipe& recipe, const std::filesystem::path& file,
                   DataCheck& check);

// Turns the error of a trainer that could not load the recipe into the mistake at its line of the recipe; `tell_other`
// gets all other mistakes first. Returns the error itself if the recipe is not at fault.
[[nodiscard]] Error as_recipe_problem(const Error& error, const recipes::Recipe& recipe,
                                      const std::vector<recipes::Knob>& knobs,
                                      const std::vector<plugins::FoundPlugin>& trainer_plugins,
                                      const std::function<void(const std::string&)>& tell_other);

// Why results cannot be written into this folder; empty if they can. Writes nothing.
[[nodiscard]] std::string output_refusal(const std::filesystem::path& folder);

// The same for the recipe's output folder, as a mistake at its line of the recipe; empty if there is none.
[[nodiscard]] std::vector<recipes::Diagnostic> output_problems(const recipes::Recipe& recipe,
                                                               const std::filesystem::path& file);

// The mistakes about what several ranks cannot do yet (recipes::refuse_ranks), at train.ranks.
[[nodiscard]] std::vector<recipes::Diagnostic> rank_problems(const recipes::Recipe& recipe,
                                                             const std::filesystem::path& file);

}  // namespace autotuned::daemon
