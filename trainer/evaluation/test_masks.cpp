// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/test_masks.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

namespace autotuned::trainer {

void TestMasks::add(const at::Tensor& logits, const at::Tensor& masks) {
  classes_ = logits.size(1);
  if (!cells_.defined()) cells_ = at::zeros({classes_ * classes_}, masks.options());
  const at::Tensor is_known = masks.lt(classes_);  // kNoClass is none of them
  const at::Tensor cells = masks.clamp(0, classes_ - 1).mul(classes_).add(logits.argmax(1));
  cells_.index_add_(0, cells.flatten(), is_known.to(cells_.scalar_type()).flatten());
}

void TestMasks::tell(TestResult& result) const {
  if (!cells_.defined()) return;
  const at::Tensor counted = cells_.to(at::kCPU, at::kLong).contiguous();
  const auto* count = counted.const_data_ptr<std::int64_t>();
  result.confusion.clear();
  for (std::int64_t i = 0; i < classes_; ++i, count += classes_)
    result.confusion.emplace_back(count, count + classes_);

  MaskFigures& figures = result.masks.emplace();
  std::vector<std::int64_t> taken(result.confusion.size());  // pixels that were taken for a class
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::vector<std::int64_t>& row = result.confusion[i];
    for (std::size_t j = 0; j < row.size(); ++j)
      taken[j] += row[j];
    figures.pixels += std::accumulate(row.begin(), row.end(), std::int64_t{0});
    correct += row[i];
  }
  if (figures.pixels > 0) {
    result.accuracy = static_cast<double>(correct) / static_cast<double>(figures.pixels);
  }
  double sum = 0.0;
  int there = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::vector<std::int64_t>& row = result.confusion[i];
    const std::int64_t both = row[i];
    const std::int64_t either =
        std::accumulate(row.begin(), row.end(), std::int64_t{0}) + taken[i] - both;
    std::optional<double>& iou = figures.ious.emplace_back();
    if (either == 0) continue;
    iou = static_cast<double>(both) / static_cast<double>(either);
    sum += *iou;
    ++there;
  }
  if (there > 0) figures.miou = sum / there;
}

}  // namespace autotuned::trainer
