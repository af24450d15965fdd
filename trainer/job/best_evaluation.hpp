// SPDX-License-Identifier: Apache-2.0
// What the evaluations of a training say together: which was the best, and whether it goes on. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "recipes/recipe.hpp"
#include "trainer/job/job.hpp"

namespace autotuned::trainer {

class BestEvaluation {
 public:
  // Without evaluations nothing ever ends.
  explicit BestEvaluation(const std::optional<recipes::Evaluation>& rules);

  // One after `epoch` epochs; whether it is better than all before, so that its weights are to be saved. Equal is not better, nor
  // is what is no number.
  // One without the figure, such as R² of targets that are all the same, counts for nothing.
  [[nodiscard]] bool take(const TestResult& test, std::int64_t epoch);

  // The same for one at the end that a longer training would not have there: it decides nothing, but what was saved of it gives
  // way to better ones only.
  [[nodiscard]] bool take_last(const TestResult& test);
  // The best of those, the higher the better; nothing if none was better than all before.
  [[nodiscard]] const std::optional<double>& saved() const { return saved_; }

  // Whether that test has the figure.
  [[nodiscard]] bool has_figure(const TestResult& test) const;

  // So many in a row were no better than the best one that the recipe ends the training.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] std::int64_t best_epoch() const { return epoch_; }

  // For the note of a checkpoint, so that a resumed training decides as one without an interruption. What was saved of
  // another figure is not read.
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
