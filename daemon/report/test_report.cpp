// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/test_report.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/token_report.hpp"

namespace autotuned::daemon {
namespace {

// Those of the last evaluation that are told, in this order; the keys have "test_" before them.
constexpr const char* kTop5 = "top5_accuracy";
constexpr std::array kFigures = {"miou", "accuracy", kTop5, "mae", "r2", "f1"};
// Among fewer classes nearly every sample has its class among the five most likely ones.
constexpr std::size_t kMinClassesOfTop5 = 20;

// With more than 1,000 classes, and in runs of older versions, there is no list of them.
bool is_top5_told(const Json& training) {
  const Json& classes = member(training, "test_classes");
  return !classes.is_array() || classes.size() >= kMinClassesOfTop5;
}

std::string figure_text(const std::string& figure, double value, bool has_masks) {
  if (figure == "miou") return fmt::format("mean IoU {:.4f}", value);
  if (figure == "accuracy")
    return fmt::format("{} accuracy {:.2f} %", has_masks ? "pixel" : "test", value * 100);
  if (figure == kTop5) return fmt::format("top 5 {:.2f} %", value * 100);
  if (figure == "mae") return fmt::format("mean absolute error {:.4g}", value);
  if (figure == "r2") return fmt::format("R² {:.4f}", value);
  if (figure == "f1") return fmt::format("micro-F1 {:.4f}", value);
  return fmt::format("test {} {:.4f}", printable(figure), value);
}

bool has_averages(const storage::RunRow& run) {
  return get_number(member(run.recipe, "train"), "ema_decay").has_value();
}

std::string name_of(const Json& one) {
  const Json& name = member(one, "class");
  return printable(name.is_string() ? name.get<std::string>() : "class " + name.dump());
}

std::string share_text(const Json& one, const char* figure) {
  return fmt::format("{:.2f} % ({})", 100 * get_number(one, figure).value_or(0.0), name_of(one));
}

// The cell of the matrix with the most samples (of masks: pixels) that were taken for another class; empty: there is none.
std::string confusion_text(const Json& classes, const Json& matrix) {
  if (!matrix.is_array() || matrix.size() != classes.size()) return {};
  std::int64_t most = 0;
  std::size_t of = 0;
  std::size_t taken_for = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const Json& row = matrix[i];
    if (!row.is_array() || row.size() != classes.size()) return {};
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (i == j || !row[j].is_number_integer() || row[j] <= most) continue;
      most = row[j].get<std::int64_t>();
      of = i;
      taken_for = j;
    }
  }
  if (most == 0) return {};
  const bool has_pixels = classes[of].contains("pixels");
  const auto all = get_integer(classes[of], has_pixels ? "pixels" : "samples");
  return fmt::format("; most often taken for another: {} for {}, {} of {}{}", name_of(classes[of]),
                     name_of(classes[taken_for]), format_count(most), format_count(all.value_or(0)),
                     has_pixels ? " pixels" : "");
}

}  // namespace

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fmt::format("loss {:.4f}", loss) : "loss not finite";
}

bool is_test_loss_not_finite(const Json& training) {
  return training.contains("test_loss") && member(training, "test_loss").is_null() &&
         get_number(training, "evaluation_ns").value_or(0.0) > 0.0;
}

std::string averages_tested(const storage::RunRow& run) {
  const bool is_tested =
      get_number(run.training, "test_loss").has_value() || is_test_loss_not_finite(run.training);
  return is_tested && has_averages(run) ? "model_ema.pt" : "";
}

std::string test_figures_text(const storage::RunRow& run) {
  const bool has_masks = get_number(run.training, "test_miou").has_value();
  std::string text;
  for (const char* const figure : kFigures) {
    if (std::string_view(figure) == kTop5 && !is_top5_told(run.training)) continue;
    const auto value = get_number(run.training, ("test_" + std::string(figure)).c_str());
    if (value) text += ", " + figure_text(figure, *value, has_masks);
  }
  text += token_figures_text(run.training, "test_", ", ", "");
  if (is_test_loss_not_finite(run.training)) text += ", test loss not finite";
  const std::string file = averages_tested(run);
  return text.empty() || file.empty() ? text : text + " (of " + file + ")";
}

std::string best_evaluation_text(const storage::RunRow& run) {
  const Json& best = member(run.training, "best_evaluation");
  const auto epoch = get_integer(best, "epoch");
  if (!epoch) return {};
  std::string text = "best at  epoch " + format_count(*epoch);
  for (const auto& [figure, value] : best.items()) {
    if (figure == "epoch" || !value.is_number()) continue;
    text += ", " + figure_text(figure, value.get<double>(), run.training.contains("test_miou"));
  }
  return text + (has_averages(run) ? ": model_best_ema.pt\n" : ": model_best.pt\n");
}

std::string classes_text(const Json& training) {
  const Json& classes = member(training, "test_classes");
  if (!classes.is_array()) return {};
  const bool has_masks = training.contains("test_miou");
  const char* const figure = has_masks ? "iou" : "recall";
  const Json* worst = nullptr;
  const Json* best = nullptr;
  int present = 0;
  for (const Json& one : classes) {
    const auto share = get_number(one, figure);
    if (!share) continue;  // without a test sample
    ++present;
    if (worst == nullptr || *share < get_number(*worst, figure).value_or(0.0)) worst = &one;
    if (best == nullptr || *share > get_number(*best, figure).value_or(0.0)) best = &one;
  }
  if (present < 2) return {};  // the accuracy has told it
  return fmt::format("classes  {} from {} to {}{}\n", has_masks ? "IoU" : "recall",
                     share_text(*worst, figure), share_text(*best, figure),
                     confusion_text(classes, member(training, "test_confusion")));
}

}  // namespace autotuned::daemon
