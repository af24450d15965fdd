// SPDX-License-Identifier: Apache-2.0
// What a trained model answers for pictures: `predict` of docs/trainer-protocol.md.
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
  std::vector<std::string> masks;  // of masks, where to write that of each picture; empty: nowhere
  std::size_t most_outputs =
      5;  // of a picture, the highest first; of numbers and tags all are told
  // As the training had them (JobFacts); empty: not known.
  std::vector<std::int64_t> sample_shape;
  std::string stored_as;
};

// Receives the `prediction` of each picture, in their order.
using PredictionSink = std::function<void(const Json&)>;

// Answers as an evaluation of that training would: with its transforms, without what is random, and with the arithmetic of
// its configuration. `recipe` is that of the training; of its data only the type counts. What it answers at the end is that of
// the protocol. A mask is written beside its name and renamed; what was there is replaced.
// ErrorKind::unsupported: the model does not take pictures, or not those of the data; ErrorKind::invalid: recipe, weights
// and pictures do not belong together; errors of files name them. Predictions before an error stay valid.
[[nodiscard]] Result<Json> predict(const recipes::Recipe& recipe,
                                   const Configuration& configuration, const Machine& machine,
                                   const Devices& devices,
                                   std::vector<plugins::TrainerLibrary> libraries,
                                   const PredictRequest& request,
                                   const PredictionSink& on_prediction,
                                   const CancelCheck& is_cancelled);

}  // namespace autotuned::trainer
