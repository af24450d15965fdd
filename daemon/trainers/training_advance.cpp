// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/training_advance.hpp"

#include <limits>

namespace autotuned::daemon {

namespace {

bool is_beyond(const Json& object, const char* field, std::int64_t most, std::int64_t& highest) {
  const std::int64_t value = get_integer(object, field).value_or(-1);
  if (value <= highest || value > most) return false;
  highest = value;
  return true;
}

}  // namespace

bool TrainingAdvance::update(const Json& progress) {
  if (const auto told = get_integer(progress, "steps_total"); told && !steps_total_) {
    steps_total_ = *told;
  }
  const std::int64_t most = steps_total_.value_or(std::numeric_limits<std::int64_t>::max());
  // `most` also limits epochs: there are no more epochs than steps.
  return is_beyond(progress, "step", most, step_) ||
         is_beyond(member(progress, "evaluation"), "epoch", most, evaluated_epoch_) ||
         is_beyond(member(progress, "checkpoint"), "step", most, checkpoint_step_);
}

}  // namespace autotuned::daemon
