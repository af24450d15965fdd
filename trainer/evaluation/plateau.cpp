// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/plateau.hpp"

#include <algorithm>
#include <cmath>

namespace autotuned::trainer {

Plateau::Plateau(const recipes::Component& schedule) {
  if (schedule.type != "plateau") return;
  is_on_ = true;
  drop_ = get_number(schedule.parameters, "factor").value_or(drop_);
  patience_ = get_integer(schedule.parameters, "patience").value_or(patience_);
  threshold_ = get_number(schedule.parameters, "threshold").value_or(threshold_);
  least_ = get_number(schedule.parameters, "min_lr_ratio").value_or(least_);
}

double Plateau::take(double loss, double factor) {
  if (!is_on_) return factor;
  if (loss < best_ * (1.0 - threshold_)) {
    best_ = loss;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (bad_ <= patience_) return factor;
  bad_ = 0;
  return std::max(factor * drop_, least_);
}

Json Plateau::to_json() const {
  return {{"best", std::isfinite(best_) ? Json(best_) : Json()}, {"bad", bad_}};
}

void Plateau::read(const Json& saved) {
  best_ = get_number(saved, "best").value_or(std::numeric_limits<double>::infinity());
  bad_ = get_integer(saved, "bad").value_or(0);
}

}  // namespace autotuned::trainer
