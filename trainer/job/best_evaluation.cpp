// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/best_evaluation.hpp"

#include <cmath>

namespace autotuned::trainer {

BestEvaluation::BestEvaluation(const std::optional<recipes::Evaluation>& rules) {
  if (!rules) return;
  by_loss_ = rules->best_by == "loss";
  patience_ = rules->patience;
}

bool BestEvaluation::take(const TestResult& test, std::int64_t epoch) {
  const double value = by_loss_ ? -test.loss : test.accuracy;
  if (std::isnan(value) || (best_ && value <= *best_)) {
    ++since_;
    return false;
  }
  best_ = value;
  epoch_ = epoch;
  since_ = 0;
  return true;
}

bool BestEvaluation::is_over() const {
  return patience_ && since_ >= *patience_;
}

Json BestEvaluation::to_json() const {
  return {{"value", best_ ? Json(*best_) : Json()}, {"epoch", epoch_}, {"since", since_}};
}

void BestEvaluation::read(const Json& saved) {
  best_.reset();
  if (const auto value = get_number(saved, "value")) best_ = *value;
  epoch_ = get_integer(saved, "epoch").value_or(0);
  since_ = get_integer(saved, "since").value_or(0);
}

}  // namespace autotuned::trainer
