// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/best_evaluation.hpp"

#include <cmath>

namespace autotuned::trainer {

namespace {

std::optional<double> figure_of(const TestResult& test, const std::string& figure) {
  if (figure == "loss") return test.loss;
  if (figure == "mae") return test.numbers ? std::optional(test.numbers->mae) : std::nullopt;
  if (figure == "r2") return test.numbers ? test.numbers->r2 : std::nullopt;
  if (figure == "f1") return test.tags ? test.tags->all.f1() : std::nullopt;
  if (figure == "miou") return test.masks ? test.masks->miou : std::nullopt;
  return test.accuracy;
}

// With its sign such that higher is better.
std::optional<double> value_of(const TestResult& test, const std::string& figure) {
  const std::optional<double> value = figure_of(test, figure);
  const bool is_lower_better = figure == "loss" || figure == "mae";
  return value && is_lower_better ? -*value : value;
}

}  // namespace

BestEvaluation::BestEvaluation(const std::optional<recipes::Evaluation>& rules) {
  if (!rules) return;
  figure_ = rules->best_by;
  patience_ = rules->patience;
}

bool BestEvaluation::take(const TestResult& test, std::int64_t epoch) {
  const std::optional<double> value = value_of(test, figure_);
  if (!value) return false;
  if (std::isnan(*value) || (best_ && *value <= *best_)) {
    ++since_;
    return false;
  }
  best_ = value;
  epoch_ = epoch;
  since_ = 0;
  return !saved_ || *best_ > *saved_;
}

bool BestEvaluation::take_last(const TestResult& test) {
  const std::optional<double> value = value_of(test, figure_);
  if (!value || std::isnan(*value)) return false;
  if ((best_ && *value <= *best_) || (saved_ && *value <= *saved_)) return false;
  saved_ = value;
  return true;
}

bool BestEvaluation::has_figure(const TestResult& test) const {
  return value_of(test, figure_).has_value();
}

Json BestEvaluation::told(const TestResult& test, std::int64_t epoch) const {
  const std::optional<double> value = figure_of(test, figure_);
  if (!value) return Json();
  return {{"epoch", epoch}, {figure_, *value}};
}

bool BestEvaluation::is_over() const {
  return patience_ && since_ >= *patience_;
}

Json BestEvaluation::to_json() const {
  Json saved = {{"figure", figure_},
                {"value", best_ ? Json(*best_) : Json()},
                {"epoch", epoch_},
                {"since", since_}};
  if (saved_) saved["saved_best"] = *saved_;
  return saved;
}

void BestEvaluation::read(const Json& saved) {
  if (const Json& figure = member(saved, "figure"); !figure.is_null() && figure != figure_) return;
  best_.reset();
  if (const auto value = get_number(saved, "value")) best_ = *value;
  saved_.reset();
  if (const auto value = get_number(saved, "saved_best")) saved_ = *value;
  epoch_ = get_integer(saved, "epoch").value_or(0);
  since_ = get_integer(saved, "since").value_or(0);
}

}  // namespace autotuned::trainer
