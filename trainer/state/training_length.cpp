// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/training_length.hpp"

#include <algorithm>

namespace autotuned::trainer {
namespace {

std::int64_t divide_up(std::int64_t what, std::int64_t by) {
  return (what + by - 1) / by;
}

}  // namespace

std::int64_t batches_of(std::int64_t samples, std::int64_t batch_size) {
  return divide_up(samples, batch_size);
}

TrainingLength training_length(const recipes::TrainLength& length, std::int64_t batch_size,
                               std::int64_t train_samples) {
  TrainingLength plan;
  plan.steps_per_epoch = std::max<std::int64_t>(
      1, length.drop_last ? train_samples / batch_size : batches_of(train_samples, batch_size));
  plan.steps = length.epochs ? *length.epochs * plan.steps_per_epoch
                             : batches_of(length.steps.value_or(1) * length.batch_size, batch_size);
  plan.epochs = divide_up(plan.steps, plan.steps_per_epoch);
  const std::int64_t samples_per_epoch =
      length.drop_last ? plan.steps_per_epoch * batch_size : train_samples;
  plan.samples = plan.steps / plan.steps_per_epoch * samples_per_epoch +
                 plan.steps % plan.steps_per_epoch * batch_size;
  return plan;
}

std::int64_t epochs_begun(std::int64_t steps, const TrainingLength& plan) {
  return divide_up(steps, plan.steps_per_epoch);
}

TrainingPosition place_with(std::int64_t batch_size, std::int64_t other_size,
                            const recipes::TrainLength& length, std::int64_t train_samples,
                            TrainingPosition place) {
  const TrainingLength plan = training_length(length, batch_size, train_samples);
  const auto steps_in = [&length, batch_size](std::int64_t samples) {
    return length.drop_last ? samples / batch_size : batches_of(samples, batch_size);
  };
  const std::int64_t left = train_samples - place.sample;
  if ((length.drop_last && left < other_size) || steps_in(left) <= 0) {
    ++place.epoch;
    place.sample = 0;
  }
  const std::int64_t done = plan.steps_per_epoch - steps_in(train_samples - place.sample);
  place.steps = std::min(place.epoch * plan.steps_per_epoch + done, plan.steps);
  place.samples =
      length.drop_last ? place.steps * batch_size : place.epoch * train_samples + place.sample;
  return place;
}

}  // namespace autotuned::trainer
