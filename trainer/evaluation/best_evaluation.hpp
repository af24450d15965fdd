// SPDX-License-Identifier: Apache-2.0
// Decides from the evaluations of a training which was the best, and whether the training goes on. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "recipes/recipe.hpp"
#include "trainer/evaluation/test_result.hpp"

namespace autotuned::trainer {

class BestEvaluation {
 public:
  // `rules`: nothing if the recipe has no evaluation; then is_over() stays false.
  explicit BestEvaluation(const std::optional<recipes::Evaluation>& rules);

  // Takes the evaluation after `epoch` epochs. Returns whether it is better than all before, so that its weights are to
  // be saved. An equal figure or NaN is not better. An evaluation without the figure, such as R² of targets that are
  // all the same, is ignored.
  [[nodiscard]] bool take(const TestResult& test, std::int64_t epoch);

  // The same for an evaluation at the end that a longer training would not make there: it does not influence is_over(),
  // but later weights must be better than it to be saved.
  [[nodiscard]] bool take_last(const TestResult& test);
  // The best figure whose weights were saved, the higher the better; nothing if there is none.
  [[nodiscard]] const std::optional<double>& saved() const { return saved_; }

  // Whether the result of an evaluation has the figure of evaluate.best_by.
  [[nodiscard]] bool has_figure(const TestResult& test) const;
  // The evaluation after `epoch` epochs by that figure, such as {"epoch": 6, "mae": 0.0549}; null if it has none.
  [[nodiscard]] Json told(const TestResult& test, std::int64_t epoch) const;

  // Whether as many evaluations in a row as evaluate.patience were no better than the best one, so that the training
  // ends.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] std::int64_t best_epoch() const { return epoch_; }
  // The evaluations in a row that were no better.
  [[nodiscard]] std::int64_t since_best() const { return since_; }

  // The state for the note of a checkpoint, so that a resumed training decides as one without an interruption. read()
  // ignores the state of another figure.
  [[nodiscard]] Json to_json() const;
  void read(const Json& saved);

 private:
  std::string figure_;  // evaluate.best_by
  std::optional<std::int64_t> patience_;
  std::optional<double> best_;
  std::optional<double> saved_;  // by take_last()
  std::int64_t epoch_ = 0;       // of the best
  std::int64_t since_ = 0;       // evaluations after the best
};

}  // namespace autotuned::trainer
