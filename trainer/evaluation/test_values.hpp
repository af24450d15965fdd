// SPDX-License-Identifier: Apache-2.0
// Sums up on the device the errors of a model for targets that are numbers. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/evaluation/test_result.hpp"

namespace autotuned::trainer {

// The mean absolute error and the coefficient of determination, in double precision. R² of a value is
// 1 - sum (target - output)² / sum (target - mean target)² over all samples. A value whose targets are all equal has no R².
// That of all values is the mean over the values that have one (scikit-learn's r2_score and mean_absolute_error with
// multioutput="uniform_average").
//
// Waits for the device only in tell(). Throws c10::Error.
class TestValues {
 public:
  // Adds a batch: outputs and targets, both (samples, values), with the same number of values in all batches.
  void add(const at::Tensor& outputs, const at::Tensor& targets);

  // Sets `numbers`. REQUIRES: result.samples is the number of all samples, at least 1.
  void tell(TestResult& result) const;

 private:
  // (values). Targets less those of the first sample, so that a mean far from 0 costs no digits.
  at::Tensor origin_;
  at::Tensor sum_;
  at::Tensor sum_of_squares_;
  at::Tensor absolute_errors_;
  at::Tensor squared_errors_;
};

}  // namespace autotuned::trainer
