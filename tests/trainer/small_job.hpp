// SPDX-License-Identifier: Apache-2.0
// Jobs that take milliseconds, for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/configuration.hpp"
#include "base/machine/machine.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {

// Two CPUs and no GPU, whatever the machine has.
inline Machine test_machine() {
  Machine machine;
  machine.cpus_allowed = 2;
  machine.physical_cores = 2;
  machine.memory_allowed_bytes = std::int64_t{8} << 30;
  machine.gpu_reason = "not for tests";
  return machine;
}

inline Devices cpu_only() {
  return {.names = {"cpu"}, .cuda_reason = "not for tests"};
}

// 200 samples of 1 x 8 x 8, a small mlp, SGD with momentum, batch size 20: 10 steps per epoch.
inline recipes::Recipe small_recipe() {
  recipes::Recipe recipe;
  recipe.name = "small";
  recipe.seed = 7;
  recipe.device = "cpu";
  recipe.model = {"mlp", {{"hidden", 16}, {"classes", 4}}};
  recipe.data = {"synthetic",
                 {{"samples", 200}, {"shape", {1, 8, 8}}, {"classes", 4}, {"shuffle", true}}};
  recipe.input = {{"scale", {{"by", "1/255"}}}, {"normalize", {{"mean", 0.5}, {"std", 0.25}}}};
  recipe.optimizer = {
      "sgd", {{"lr", 0.05}, {"momentum", 0.9}, {"weight_decay", 0.0}, {"nesterov", false}}};
  recipe.train = {.epochs = 2, .steps = {}, .batch_size = 20, .drop_last = true};
  recipe.evaluation = recipes::Evaluation{
      .data = {"synthetic",
               {{"samples", 50}, {"shape", {1, 8, 8}}, {"classes", 4}, {"shuffle", false}}},
      .every = "epoch"};
  return recipe;
}

// The same with a convolutional model on 2 x 12 x 12.
inline recipes::Recipe small_cnn_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"fashion_cnn", {{"classes", 4}}};
  recipe.data.parameters["shape"] = {2, 12, 12};
  recipe.evaluation->data.parameters["shape"] = {2, 12, 12};
  recipe.input.pop_back();
  recipe.input.push_back({"normalize", {{"mean", {0.5, 0.4}}, {"std", {0.25, 0.3}}}});
  return recipe;
}

// The same with patch dropout, which draws random numbers and uses the operator gather.
inline recipes::Recipe patch_dropout_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"vit",
                  {{"size", "tiny"},
                   {"patch", 2},
                   {"embed", 24},
                   {"depth", 0},
                   {"heads", 3},
                   {"pool", "avg"},
                   {"patch_dropout", 0.5},
                   {"classes", 4}}};
  return recipe;
}

// A small gpt on 200 made-up texts of 12 tokens, evaluated on 30 others.
inline recipes::Recipe small_token_recipe() {
  const auto made_up = [](int samples) -> recipes::Component {
    return {"synthetic_tokens", {{"samples", samples}, {"context", 12}, {"vocabulary", 16}}};
  };
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"gpt",
                  {{"layers", 1},
                   {"heads", 2},
                   {"width", 16},
                   {"dropout", 0.0},
                   {"bias", true},
                   {"tied", true}}};
  recipe.data = made_up(200);
  recipe.input.clear();
  recipe.evaluation = recipes::Evaluation{.data = made_up(30), .best_by = "loss"};
  return recipe;
}

inline Configuration starting(const recipes::Recipe& recipe) {
  return recipe.starting_configuration(recipes::knobs_of(test_machine()));
}

inline Configuration with(Configuration configuration, const std::string& knob, KnobValue value) {
  configuration.set(knob, std::move(value));
  return configuration;
}

inline std::unique_ptr<Job> load(const recipes::Recipe& recipe,
                                 const Configuration& configuration) {
  auto job = Job::load(recipe, configuration, test_machine(), cpu_only());
  if (!job) {
    ADD_FAILURE() << job.error().message();
    return nullptr;
  }
  return std::move(*job);
}

inline std::unique_ptr<Job> load(const recipes::Recipe& recipe) {
  return load(recipe, starting(recipe));
}

// The value of a Result, or a failed test and a default.
template <class T>
T value_of(Result<T> result) {
  if (result) return std::move(*result);
  ADD_FAILURE() << result.error().message();
  return T{};
}

inline bool never() {
  return false;
}

// An empty folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainer-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace autotuned::trainer
