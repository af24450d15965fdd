// SPDX-License-Identifier: Apache-2.0
#include "bench/recipe_job.hpp"

#include <unistd.h>

#include <algorithm>

#include "daemon/common/installation_paths.hpp"
#include "daemon/common/settings.hpp"
#include "daemon/common/trainer_plugins.hpp"

namespace autotuned::bench {

RecipeJob::RecipeJob(const std::filesystem::path& recipe_file,
                     const std::vector<std::string>& settings,
                     const std::vector<std::filesystem::path>& plugin_folders, int ranks)
    : machine_(detect_machine()),
      knobs_(recipes::knobs_of(machine_)),
      folder_(std::filesystem::temp_directory_path() /
              fmt::format("autotuned-bench-{}", getpid())) {
  std::vector<plugins::FoundPlugin> extensions;
  if (!plugin_folders.empty()) {
    extensions = daemon::trainer_plugins_here(plugin_folders);
    knobs_ = daemon::knobs_with(std::move(knobs_), extensions);
  }
  auto recipe = recipes::read_recipe(recipe_file, knobs_);
  if (!recipe) {
    for (const auto& diagnostic : recipe.error())
      fmt::print(stderr, "{}\n", diagnostic.text());
    std::exit(2);
  }
  if (auto applied = daemon::apply_settings(settings, knobs_, *recipe); !applied) {
    fmt::print(stderr, "error: {}\n", applied.error().message());
    std::exit(2);
  }
  if (ranks > 0) recipe->train.ranks = ranks;
  knobs_ = recipes::with_ranks(std::move(knobs_), recipe->train.ranks);
  start_ = recipe->starting_configuration(knobs_);
  std::filesystem::create_directories(folder_);
  daemon::TrainerBackendSpec spec;
  recipe_ = std::move(*recipe);
  spec.recipe = recipe_;
  spec.knobs = knobs_;
  spec.extension_knobs = daemon::extension_knobs(extensions);
  spec.plugins = value_of(daemon::libraries_for(recipe_, extensions));
  spec.trainer = daemon::find_installation_paths().trainer;
  spec.folder = folder_;
  spec.measurement_lock = folder_ / "measurement.lock";
  job_ = std::make_unique<daemon::TrainerBackend>(std::move(spec), cancel_);
}

RecipeJob::~RecipeJob() {
  job_->stop();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Json RecipeJob::metrics(const Configuration& configuration) {
  return value_of(job_->profile(configuration)).metrics;
}

double RecipeJob::samples_per_second(const Configuration& configuration,
                                     std::chrono::nanoseconds duration) {
  return value_of(job_->run_block(configuration, {.minimum_duration = duration}))
      .samples_per_second();
}

}  // namespace autotuned::bench
