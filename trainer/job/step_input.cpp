// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/step_input.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "trainer/common/tensor_hash.hpp"

namespace autotuned::trainer {

std::vector<double> Projections::of(const at::Tensor& batch) {
  const at::NoGradGuard no_grad;
  if (batch.size(0) == 0) return {};
  const at::Tensor samples =
      batch.detach().contiguous().reshape({batch.size(0), -1}).to(at::kFloat);
  const std::int64_t elements = samples.size(1);
  if (!signs_.defined() || signs_.numel() != elements) {
    signs_ = at::empty({elements}, at::kFloat);
    auto* const sign = signs_.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < elements; ++i)
      sign[i] = (mixed_bits(static_cast<std::uint64_t>(i) * kOddBits) & 1U) != 0 ? 1.0F : -1.0F;
  }
  if (signs_.device() != samples.device()) signs_ = signs_.to(samples.device());
  const at::Tensor sums = (samples * signs_).sum(1).to(at::kCPU, at::kDouble).contiguous();
  const auto* const sum = sums.const_data_ptr<double>();
  return {sum, sum + sums.numel()};
}

}  // namespace autotuned::trainer
