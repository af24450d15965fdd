// SPDX-License-Identifier: Apache-2.0
// What tells one batch from another. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace autotuned::trainer {

// Over the values in order, whatever the memory format; -0 counts as +0. Tells accidents apart, not attacks.
[[nodiscard]] std::uint64_t hash_of(const at::Tensor& tensor);

// Sums of samples with signs that are fixed for each place in a sample, as random as coins. Draws nothing from
// LibTorch's generators.
class Projections {
 public:
  // `batch`: (samples, ...).
  [[nodiscard]] std::vector<double> of(const at::Tensor& batch);

 private:
  at::Tensor signs_;  // of the last size of a sample
};

}  // namespace autotuned::trainer
