// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/gradient_limits.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace autotuned::trainer {
namespace {

// PyTorch's, against a division by zero.
constexpr double kEpsilon = 1e-6;

}  // namespace

void limit_gradients(const std::vector<at::Tensor>& gradients, std::optional<double> largest_norm,
                     std::optional<double> largest_value) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  if (largest_norm) {
    const at::Tensor norm =
        at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2.0)), 2.0);
    const at::Tensor factor = norm.add(kEpsilon).reciprocal().mul(*largest_norm).clamp_max(1.0);
    at::_foreach_mul_(gradients, factor);
  }
  if (largest_value) {
    at::_foreach_clamp_min_(gradients, -*largest_value);
    at::_foreach_clamp_max_(gradients, *largest_value);
  }
}

}  // namespace autotuned::trainer
