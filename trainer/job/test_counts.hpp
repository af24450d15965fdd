// SPDX-License-Identifier: Apache-2.0
// What a model took the samples of an evaluation for, counted on the device. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/job/job.hpp"

namespace autotuned::trainer {

// Waits for the device only in tell(). Throws c10::Error.
class TestCounts {
 public:
  // A batch, all with the same number of classes: logits (samples, classes), labels (samples).
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
