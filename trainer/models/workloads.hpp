// SPDX-License-Identifier: Apache-2.0
// Models, data and losses of workload plugins (plugins/sdk/workload.hpp). Private to trainer/: includes
// LibTorch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/recipe.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/models/loss.hpp"

namespace autotuned::sdk::detail {
struct WorkloadSurface;
}

namespace autotuned::trainer {

class Model;

// Makes models, data and losses; loads a library when it is first needed. Errors name the plugin and the line of the
// recipe: ErrorKind::not_found (no such plugin among `libraries`), or invalid (parameters, shapes, or an exception of
// the plugin). One thread. Libraries stay loaded, so that the results may live as long as the process.
class Workloads {
 public:
  static constexpr const char* kType =
      "plugin";  // the type of such a model, data set or loss in a recipe

  // Uses the workloads among `libraries`.
  Workloads(const std::filesystem::path& recipe, std::vector<plugins::TrainerLibrary> libraries);

  // Makes a model, and runs it on two black samples, so that outputs of a wrong shape are found at once.
  [[nodiscard]] Result<std::shared_ptr<Model>> make_model(const recipes::Component& spec,
                                                          input::SampleShape sample);
  [[nodiscard]] Result<std::unique_ptr<input::Dataset>> open_data(const recipes::Component& spec);
  // The loss of the plugin that `spec`, a loss or a model, names. It gets tokens as rows of logits and their classes.
  // An exception of the plugin, or an output that is no scalar, becomes std::runtime_error with the plugin's name.
  [[nodiscard]] Result<LossFunction> loss(const recipes::Component& spec);

 private:
  struct Found {
    const sdk::detail::WorkloadSurface* surface;
    std::string who;         // "recipe.yaml:5, plugin mine"
    std::string parameters;  // JSON
  };
  [[nodiscard]] Result<Found> find(const recipes::Component& spec) const;

  std::string recipe_;
  std::vector<plugins::TrainerLibrary> libraries_;
};

}  // namespace autotuned::trainer
