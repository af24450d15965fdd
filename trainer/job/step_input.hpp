// SPDX-License-Identifier: Apache-2.0
// Hashes and projections that identify a batch. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace autotuned::trainer {

// A hash of the values in order, independent of the memory format; -0 counts as +0. It is not cryptographic.
[[nodiscard]] std::uint64_t hash_of(const at::Tensor& tensor);

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
