// SPDX-License-Identifier: Apache-2.0
// Layers that several models share. Private to trainer/models: includes LibTorch.
#pragma once

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>

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

}  // namespace autotuned::trainer
