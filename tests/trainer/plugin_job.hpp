// SPDX-License-Identifier: Apache-2.0
// Jobs with the plugins of fixtures/.
#pragma once

#include <cstdlib>
#include <memory>
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

// A small job with one of them, whose knob a test turns. The environment variable names the file of the plugin's notes.
class PluginJobTest : public testing::Test {
 protected:
  PluginJobTest(const char* plugin, const char* knob, const char* variable)
      : knob_(knob), variable_(variable) {
    ::setenv(variable_, (folder_ / "notes").c_str(), 1);
    job_ = value_of(load_with(small_recipe(), start_, plugin));
  }
  ~PluginJobTest() override { ::unsetenv(variable_); }

  Result<Prepared> turn(const std::string& value) {
    return job_->prepare(with(start_, knob_, value));
  }
  // Parameters after some steps from the initial state.
  std::string digest() {
    EXPECT_TRUE(job_->restore("initial"));
    value_of(job_->run_steps(12, never));
    return value_of(job_->digest());
  }
  std::string error_of(const std::string& value) {
    auto turned = turn(value);
    return turned ? "" : turned.error().message();
  }

  Folder folder_;
  Configuration start_ = starting(small_recipe());
  std::unique_ptr<Job> job_;

 private:
  const char* knob_;
  const char* variable_;
};

}  // namespace autotuned::trainer
