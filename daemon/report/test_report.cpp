// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/test_report.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace autotuned::daemon {
namespace {

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
