// SPDX-License-Identifier: Apache-2.0
// Counts on the device which class a model predicted for the samples of an evaluation. Private to trainer/: includes
// LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/evaluation/test_result.hpp"

namespace autotuned::trainer {

// Waits for the device only in tell(). Throws c10::Error.
class TestCounts {
 public:
  // Adds a batch: logits (samples, classes), labels (samples), with the same number of classes in all batches.
  void add(const at::Tensor& logits, const at::Tensor& labels);

  // Sets top5_accuracy and confusion. REQUIRES: result.samples is the number of all samples.
  void tell(TestResult& result) const;

 private:
  std::int64_t classes_ = 0;
  at::Tensor among_five_;  // a scalar; undefined with five classes or less
  at::Tensor
      cells_;  // (classes * classes), by class and by what it was taken for; undefined with too many
};

}  // namespace autotuned::trainer
