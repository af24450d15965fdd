// SPDX-License-Identifier: Apache-2.0
// What training makes small. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "base/result.hpp"

namespace autotuned::trainer {

enum class Loss {
  cross_entropy,
  mse,  // mean over samples and outputs of (output - one-hot label)^2
};

// A scalar of logits and labels. Throws c10::Error, or what a plugin's does.
using LossFunction = std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels)>;

// ErrorKind::unsupported for an unknown name.
[[nodiscard]] Result<Loss> loss_from(const std::string& name);

// The mean over the samples as a scalar, computed as PyTorch does: in float32 under autocast, too.
// Throws c10::Error.
[[nodiscard]] at::Tensor loss_of(Loss loss, const at::Tensor& logits, const at::Tensor& labels);

}  // namespace autotuned::trainer
