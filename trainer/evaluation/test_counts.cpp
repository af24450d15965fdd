// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/test_counts.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <tuple>
#include <vector>

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kFive = 5;
// With more classes the confusion matrix is left out: this many take 8 MB.
constexpr std::int64_t kMaxClasses = 1000;

}  // namespace

void TestCounts::add(const at::Tensor& logits, const at::Tensor& labels) {
  classes_ = logits.size(1);
  if (classes_ > kFive) {
    const at::Tensor five = std::get<1>(logits.topk(kFive, 1));
    const at::Tensor found = five.eq(labels.unsqueeze(1)).any(1).sum();
    among_five_ = among_five_.defined() ? among_five_ + found : found;
  }
  if (classes_ > kMaxClasses) return;
  if (!cells_.defined()) cells_ = at::zeros({classes_ * classes_}, labels.options());
  // Samples of classes that the model does not have count for the accuracy alone.
  const at::Tensor is_known = labels.ge(0).logical_and(labels.lt(classes_));
  const at::Tensor cells = labels.clamp(0, classes_ - 1).mul(classes_).add(logits.argmax(1));
  cells_.index_add_(0, cells, is_known.to(cells_.scalar_type()));
}

void TestCounts::tell(TestResult& result) const {
  if (among_five_.defined()) {
    result.top5_accuracy = among_five_.item().toDouble() / static_cast<double>(result.samples);
  }
  if (!cells_.defined()) return;
  const at::Tensor counted = cells_.to(at::kCPU, at::kLong);
  const auto* count = counted.const_data_ptr<std::int64_t>();
  result.confusion.clear();
  for (std::int64_t i = 0; i < classes_; ++i, count += classes_)
    result.confusion.emplace_back(count, count + classes_);
}

}  // namespace autotuned::trainer
