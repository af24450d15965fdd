// SPDX-License-Identifier: Apache-2.0
// Projections that identify a batch. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace autotuned::trainer {

// Sums over each sample with pseudo-random signs, which are fixed for each position in a sample. Draws nothing from
// LibTorch's generators.
class Projections {
 public:
  // `batch`: (samples, ...).
  [[nodiscard]] std::vector<double> of(const at::Tensor& batch);

 private:
  at::Tensor signs_;  // of the last size of a sample
};

}  // namespace autotuned::trainer
