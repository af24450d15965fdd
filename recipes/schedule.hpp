// SPDX-License-Identifier: Apache-2.0
// How the learning rate changes in the course of a training. Pure.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::recipes {

// How long a training is, in samples; all at least 1.
struct CourseLength {
  std::int64_t samples_per_epoch = 1;
  std::int64_t samples = 1;
  std::int64_t samples_per_step =
      1;  // of the recipe's own batch size, whatever batch is trained with
};

// What the learning rate is multiplied with once `samples_seen` samples were trained on. Depends on the
// samples alone, so that another batch size follows the same course; beyond the end it stays as there. Of a plateau
// only the warm-up: what evaluations make of it, the training knows.
// REQUIRES: check_schedule(schedule).
[[nodiscard]] double schedule_factor(const Typed& schedule, std::int64_t samples_seen,
                                     const CourseLength& length);

// What of a schedule follows from the length of the training: nothing, its warm-up, or its whole course.
enum class LengthDependence { none, warmup, course };
// REQUIRES: check_schedule(schedule).
[[nodiscard]] LengthDependence length_dependence(const Typed& schedule);

// ErrorKind::invalid for an unknown type, or a parameter that is missing.
[[nodiscard]] Result<void> check_schedule(const Typed& schedule);

}  // namespace autotuned::recipes
