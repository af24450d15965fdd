// SPDX-License-Identifier: Apache-2.0
// Counts on the device which class a model predicted for the pixels of an evaluation. Private to trainer/: includes
// LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/evaluation/test_result.hpp"

namespace autotuned::trainer {

// The intersection over union (IoU) of a class is TP / (TP + FP + FN) over the pixels of all samples that count. The
// mean is over the classes that have one: a class has one if it is in a mask or was predicted for a pixel.
//
// Waits for the device only in tell(). Throws c10::Error.
class TestMasks {
 public:
  // Adds a batch: logits (samples, classes, rows, columns), masks (samples, rows, columns), with the same number of
  // classes in all batches.
  void add(const at::Tensor& logits, const at::Tensor& masks);

  // Sets `masks`, `confusion` and `accuracy`, of pixels.
  void tell(TestResult& result) const;

 private:
  std::int64_t classes_ = 0;
  at::Tensor cells_;  // (classes * classes), by class and by what it was taken for
};

}  // namespace autotuned::trainer
