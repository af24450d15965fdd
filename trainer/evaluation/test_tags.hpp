// SPDX-License-Identifier: Apache-2.0
// Counts on the device which tags a model finds in the samples of an evaluation. Private to trainer/: includes
// LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/evaluation/test_result.hpp"

namespace autotuned::trainer {

// A tag counts as found in a sample if its logit is above 0: its probability, the sigmoid, above 0.5. Micro-F1 is
// 2 TP / (2 TP + FP + FN), with the true positives, false positives and false negatives of all tags together
// (scikit-learn's f1_score with average="micro").
//
// Waits for the device only in tell(). Throws c10::Error.
class TestTags {
 public:
  // Adds a batch: logits and tags, both (samples, tags), with the same number of tags in all batches.
  void add(const at::Tensor& logits, const at::Tensor& tags);

  // Sets `tags`.
  void tell(TestResult& result) const;

 private:
  at::Tensor
      counts_;  // (3, tags): true positives, samples in which it was found, samples that have it
};

}  // namespace autotuned::trainer
