// SPDX-License-Identifier: Apache-2.0
// Clipping of gradients. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace autotuned::trainer {

// Clips gradients in place, with the arithmetic of PyTorch's clip_grad_norm_ (the 2-norm of all gradients together) and
// clip_grad_value_; does nothing without a limit. Does not wait for the device. Gradients that are not finite stay so.
// Throws c10::Error.
void limit_gradients(const std::vector<at::Tensor>& gradients, std::optional<double> largest_norm,
                     std::optional<double> largest_value);

}  // namespace autotuned::trainer
