// SPDX-License-Identifier: Apache-2.0
// Predictions of a trained model for pictures: `predict` of docs/trainer-protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "plugins/host/trainer_library.hpp"
#include "recipes/recipe.hpp"
#include "trainer/common/device.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {

struct PredictRequest {
  std::filesystem::path weights;      // a state dictionary, such as model.pt
  std::vector<std::string> pictures;  // JPEG and PNG files
  std::vector<std::string>
      masks;  // for models of masks: the file for each picture's mask; empty: none is written
  std::size_t most_outputs =
      5;  // classes of a picture, the highest first; numbers and tags are all told
  // The samples of the training (JobFacts); empty: not known.
  std::vector<std::int64_t> sample_shape;
  std::string stored_as;
};

// Receives the `prediction` of each picture, in their order; of one that cannot be read, its `error`.
using PredictionSink = std::function<void(const Json&)>;

// Predicts as an evaluation of that training would: with its transforms, without the random ones, and with the
// arithmetic of its configuration. `recipe` is that of the training; of its data only the type is used. Returns the
// answer of the protocol. A mask is written beside its name and renamed; what was there is replaced.
// ErrorKind::unsupported: the model does not take pictures, or not those of the data; ErrorKind::invalid: recipe,
// weights and pictures do not belong together; errors of files name them. Predictions before an error stay valid. A
// damaged picture is no error: the others are answered.
[[nodiscard]] Result<Json> predict(const recipes::Recipe& recipe,
                                   const Configuration& configuration, const Machine& machine,
                                   const Devices& devices,
                                   std::vector<plugins::TrainerLibrary> libraries,
                                   const PredictRequest& request,
                                   const PredictionSink& on_prediction,
                                   const CancelCheck& is_cancelled);

}  // namespace autotuned::trainer
