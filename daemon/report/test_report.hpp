// SPDX-License-Identifier: Apache-2.0
// The text about the evaluations of a trained model.
#pragma once

#include <string>

#include "base/json.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// A key of `training` in the result of `run --json`: the file in the output folder whose weights the figures belong to.
// Missing: model.pt, or nothing was evaluated.
inline constexpr const char* kTestWeights = "test_weights";

// model_ema.pt if the evaluations of the run were of the averages of its weights; else empty.
[[nodiscard]] std::string averages_tested(const storage::RunRow& run);

// "loss 0.2733", or "loss not finite".
[[nodiscard]] std::string loss_text(double loss);

// Whether something was evaluated, and its loss was no finite number: then JSON has null, as where nothing was.
[[nodiscard]] bool is_test_loss_not_finite(const Json& training);

// ", test accuracy 88.73 %": the figures of the last evaluation, with " (of model_ema.pt)" if they are of averages. "top 5"
// is among them from 20 classes on. Empty without an evaluation.
[[nodiscard]] std::string test_figures_text(const storage::RunRow& run);

// "best at  epoch 6, mean absolute error 0.0549: model_best.pt", with a line end: the evaluation whose weights
// evaluate.save_best has kept. Empty: none, or a run of an older version.
[[nodiscard]] std::string best_evaluation_text(const storage::RunRow& run);

// "classes  recall from 61.20 % (shirt) to 98.10 % (bag); most often taken for another: shirt for coat, 96 of 1,000",
// with a line end; for masks "classes  IoU from …". `training` is that column of a run. Empty: fewer than two
// classes have test samples, or nothing is known of them.
[[nodiscard]] std::string classes_text(const Json& training);

}  // namespace autotuned::daemon
