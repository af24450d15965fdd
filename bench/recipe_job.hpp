// SPDX-License-Identifier: Apache-2.0
// The job of a recipe in our trainer, for programs that time it in blocks of their own.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "daemon/trainers/trainer_client.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::bench {

// A benchmark has nobody to hand an error to: it says what is wrong and ends.
template <class T>
T value_of(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "error: {}\n", result.error().message());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class RecipeJob {
 public:
  // `settings` are KNOB=VALUE over the recipe's start, where the extensions of `plugin_folders` have knobs, too.
  // `ranks` (0: as it says) take the place of the recipe's. Mistakes end the program with status 2.
  RecipeJob(const std::filesystem::path& recipe, const std::vector<std::string>& settings,
            const std::vector<std::filesystem::path>& plugin_folders = {}, int ranks = 0);
  ~RecipeJob();
  RecipeJob(const RecipeJob&) = delete;
  RecipeJob& operator=(const RecipeJob&) = delete;

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const std::vector<recipes::Knob>& knobs() const { return knobs_; }
  [[nodiscard]] const Configuration& start() const { return start_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] daemon::CancelSource& cancel() { return cancel_; }

  // The last trainer's own words about the job; null before the first block.
  [[nodiscard]] Json facts() const { return job_->facts(); }
  [[nodiscard]] const recipes::Recipe& recipe() const { return recipe_; }
  // Those of a profile.
  [[nodiscard]] Json metrics(const Configuration& configuration);
  // The job itself, for the tuner's own functions.
  [[nodiscard]] tuner::TrainingBackend& job() { return *job_; }
  // The rate of one block.
  [[nodiscard]] double samples_per_second(const Configuration& configuration,
                                          std::chrono::nanoseconds duration);

 private:
  recipes::Recipe recipe_;
  Machine machine_;
  std::vector<recipes::Knob> knobs_;
  Configuration start_;
  std::filesystem::path folder_;  // temporary
  daemon::NeverCancelled cancel_;
  std::unique_ptr<daemon::TrainerBackend> job_;
};

}  // namespace autotuned::bench
