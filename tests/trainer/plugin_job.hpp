// SPDX-License-Identifier: Apache-2.0
// Jobs with the plugins of fixtures/.
#pragma once

#include <string>

#include "plugins/host/trainer_library.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {

inline plugins::TrainerLibrary fixture(const std::string& name) {
  return value_of(plugins::examine_trainer_library(tests::build_folder() / "tests/fixture_plugins" /
                                                   name / ("lib" + name + "_trainer.so")));
}

inline Result<std::unique_ptr<Job>> load_with(const recipes::Recipe& recipe,
                                              const Configuration& configuration,
                                              const std::string& plugin) {
  return Job::load(recipe, configuration, test_machine(), cpu_only(), {fixture(plugin)});
}

}  // namespace autotuned::trainer
