// SPDX-License-Identifier: Apache-2.0
// A TrainerBackend over fake trainers.
#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/trainers/trainer_backend.hpp"
#include "tests/daemon/trainers/fake_scene.hpp"
#include "tests/daemon/trainers/fake_session.hpp"

namespace autotuned::daemon {

class TrainerBackendTest : public testing::Test {
 protected:
  TrainerBackend& job() { return job_ ? *job_ : job_.emplace(job_spec(), cancel_); }
  // Sets the starting configuration, too.
  TrainerBackendSpec job_spec() {
    Machine machine;
    machine.cpus_allowed = 4;
    machine.physical_cores = 4;
    TrainerBackendSpec spec;
    spec.knobs = recipes::knobs_of(machine);
    recipes::Knob skip;
    skip.name = "mine.skip";
    skip.default_value = false;
    spec.knobs.push_back(skip);
    spec.extension_knobs = {"mine.skip"};
    spec.plugins = {"/plugins/libmine_trainer.so"};
    spec.recipe = *recipes::parse_recipe(
        "autotuned: 1\n"
        "name: small\n"
        "model: {type: mlp, hidden: 16, classes: 4}\n"
        "data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}\n"
        "optimizer: {type: sgd, lr: 0.1}\n"
        "train: {epochs: 1, batch_size: 8}\n"
        "start: {optimizer.set_to_none: off}\n",
        "recipe.yaml", spec.knobs);
    spec.trainer = scene_.trainer();
    spec.folder = scene_.folder().path();
    spec.measurement_lock = scene_.folder() / "measurement.lock";
    spec.recipe.checkpoint_every = checkpoint_every_;
    spec.on_damage = [this](const Json& damaged) { damaged_.push_back(damaged); };
    spec.on_trainer_end = [this](const TrainerEnd& end) { ends_.push_back(end); };
    spec.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    start_ = spec.recipe.starting_configuration(spec.knobs);
    return spec;
  }
  [[nodiscard]] Configuration with(const std::string& knob, KnobValue value) const {
    Configuration configuration = start_;
    configuration.set(knob, std::move(value));
    return configuration;
  }
  // The requests `run` of blocks that are timed, without those that warm up.
  [[nodiscard]] std::vector<Json> blocks() const {
    std::vector<Json> runs = scene_.requests("run");
    std::erase_if(runs, [](const Json& run) {
      return run.at("minimum_ns").get<std::int64_t>() < 100'000'000;
    });
    return runs;
  }
  // The process of the trainer that was started as the N-th, from 0.
  [[nodiscard]] int process(std::size_t number) const {
    return scene_.requests("hello").at(number).at("trainer");
  }
  // Waits for it: a signal takes a moment to arrive.
  static void wait_until_stopped(int process, bool is_stopped) {
    const auto state = [process] {
      std::ifstream file("/proc/" + std::to_string(process) + "/stat");
      const std::string text(std::istreambuf_iterator<char>(file), {});
      return text.empty() ? 'X' : text.at(text.rfind(')') + 2);
    };
    while ((state() == 'T') != is_stopped) {
      if (state() == 'X') FAIL() << "it has ended";
    }
  }
  // How many processes answered.
  [[nodiscard]] std::size_t trainers() const {
    std::set<int> found;
    for (const Json& request : scene_.requests())
      found.insert(request.at("trainer").get<int>());
    return found.size();
  }

  FakeScene scene_;
  CancelSwitch cancel_;
  std::optional<TrainerBackend> job_;
  Configuration start_;
  std::chrono::nanoseconds checkpoint_every_ = std::chrono::minutes(10);
  std::vector<Json> damaged_;
  std::vector<std::string> warnings_;
  std::vector<TrainerEnd> ends_;
};

}  // namespace autotuned::daemon
