// SPDX-License-Identifier: Apache-2.0
// The schedules of the learning rate. Pure.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::recipes {

// The length of a training, in samples. All values are at least 1.
struct CourseLength {
  std::int64_t samples_per_epoch = 1;
  std::int64_t samples = 1;
  std::int64_t samples_per_step =
      1;  // the recipe's own batch size, also if tuning changes the batch
};

// Returns the factor of the learning rate after `samples_seen` samples. It depends only on the samples, so that every batch size
// follows the same course. After the end of the training it stays the same. For a plateau this is only the factor of the warm-up: the
// training computes the drops from its evaluations. REQUIRES: check_schedule(schedule).
[[nodiscard]] double schedule_factor(const Component& schedule, std::int64_t samples_seen,
                                     const CourseLength& length);

// The part of a schedule that depends on the length of the training: nothing, its warm-up, or its whole course.
enum class LengthDependence { none, warmup, course };
// REQUIRES: check_schedule(schedule).
[[nodiscard]] LengthDependence length_dependence(const Component& schedule);

// ErrorKind::invalid for an unknown type, or a parameter that is missing.
[[nodiscard]] Result<void> check_schedule(const Component& schedule);

}  // namespace autotuned::recipes
