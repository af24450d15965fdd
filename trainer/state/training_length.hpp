// SPDX-License-Identifier: Apache-2.0
// The length of a training, and positions in it. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "recipes/recipe.hpp"

namespace autotuned::trainer {

// How many batches `samples` samples fill; the last one may be incomplete.
[[nodiscard]] std::int64_t batches_of(std::int64_t samples, std::int64_t batch_size);

// The position of a training, without its parameters and optimizer state.
struct TrainingPosition {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // the first of the next batch
  std::int64_t steps = 0;   // done since the initial state
  // The samples so far, for the learning rate; nothing: as many as the checkpoint has.
  std::optional<std::int64_t> samples = std::nullopt;
};

// How long a recipe trains with a batch size.
struct TrainingLength {
  std::int64_t steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t epochs = 0;  // begun ones; the last one may be incomplete
  std::int64_t samples = 0;
};
// `steps: N` in a recipe means N x its own batch size in samples, rounded up to whole steps.
[[nodiscard]] TrainingLength training_length(const recipes::TrainLength& length,
                                             std::int64_t batch_size, std::int64_t train_samples);

// How many epochs of the plan `steps` steps have begun.
[[nodiscard]] std::int64_t epochs_begun(std::int64_t steps, const TrainingLength& plan);

// A training was at `place` with batches of `other_size` and goes on with batches of `batch_size`. Returns its place then: the
// same sample, and the steps and samples that batches of `batch_size` would have made up to it. If the epoch has only an
// incomplete batch of `other_size` left, which is dropped, the epoch is over.
[[nodiscard]] TrainingPosition place_with(std::int64_t batch_size, std::int64_t other_size,
                                          const recipes::TrainLength& length,
                                          std::int64_t train_samples, TrainingPosition place);

}  // namespace autotuned::trainer
