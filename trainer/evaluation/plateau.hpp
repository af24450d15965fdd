// SPDX-License-Identifier: Apache-2.0
// Lowers the learning rate when the loss of the evaluations no longer falls: PyTorch's ReduceLROnPlateau. Pure.
#pragma once

#include <cstdint>
#include <limits>

#include "base/json.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

class Plateau {
 public:
  // For a schedule of another type take() changes nothing. REQUIRES: recipes::check_schedule(schedule).
  explicit Plateau(const recipes::Component& schedule);

  // Takes the loss of an evaluation and the present `factor` of the learning rate. Returns the factor from now on.
  [[nodiscard]] double take(double loss, double factor);

  // The state, for the note of a checkpoint.
  [[nodiscard]] Json to_json() const;
  void read(const Json& saved);

 private:
  bool is_on_ = false;
  double drop_ = 1.0;
  std::int64_t patience_ = 0;
  double threshold_ = 0.0;
  double least_ = 0.0;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t bad_ = 0;  // evaluations in a row that were no better
};

}  // namespace autotuned::trainer
