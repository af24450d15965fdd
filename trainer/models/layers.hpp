// SPDX-License-Identifier: Apache-2.0
// Layers and initial values that several models share. Private to trainer/models: includes LibTorch.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace autotuned::trainer {

// A 3x3 convolution that keeps the size of the image.
[[nodiscard]] inline torch::nn::Conv2d same_conv3x3(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
}

// ReLU and 2x2 max pooling. ReLU comes after the pooling: the same bits, forward and backward, for a
// quarter of the work.
[[nodiscard]] inline at::Tensor relu_and_halve(const at::Tensor& x) {
  return at::relu(at::max_pool2d(x, 2));
}

// Layer normalisation over the last dimension, with the epsilon of vision transformers and ConvNeXt.
[[nodiscard]] inline torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

// The standard deviation of these models' initial weights (fill_normal()).
inline constexpr double kWeightDeviation = 0.02;

// Fills with normal numbers, truncated to -2 .. 2: the method of PyTorch's and timm's trunc_normal_, which draw them
// from uniform numbers.
inline void fill_normal(const at::Tensor& tensor, double deviation) {
  const at::NoGradGuard no_grad;
  const double edge = std::erf(2.0 / deviation / std::numbers::sqrt2);
  tensor.uniform_(-edge, edge).erfinv_().mul_(deviation * std::numbers::sqrt2);
  tensor.clamp_(-2.0, 2.0);
}

// In training, drops the output of a block for a random share of the samples, and scales it up for the others, so that
// its mean stays the same: torchvision's StochasticDepth in mode "row".
class StochasticDepth final : public torch::nn::Module {
 public:
  // REQUIRES: 0 <= ratio < 1.
  explicit StochasticDepth(double ratio) : ratio_(ratio) {}

  at::Tensor forward(const at::Tensor& x) const {
    if (!is_training() || ratio_ == 0.0) return x;
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
    shape[0] = x.size(0);
    const at::Tensor factors = at::empty(shape, x.options());
    factors.bernoulli_(1.0 - ratio_).div_(1.0 - ratio_);
    return x.mul(factors);
  }

 private:
  double ratio_;
};

}  // namespace autotuned::trainer
