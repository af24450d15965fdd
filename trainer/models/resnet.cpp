// SPDX-License-Identifier: Apache-2.0
// ResNet-18, -34 and -50 as torchvision builds them: architecture, names, initial values, and the order
// in which random numbers are drawn for them.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"

namespace autotuned::trainer {
namespace {

torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t size,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2).bias(false));
}

class Block : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;

 protected:
  // The shortcut that is added to the result: the input, projected to the shape of the result if they differ.
  void add_shortcut(std::int64_t from, std::int64_t to, std::int64_t stride) {
    if (stride == 1 && from == to) return;
    const auto downsample = register_module("downsample", std::make_shared<torch::nn::Module>());
    shortcut_ = downsample->register_module("0", convolution(from, to, 1, stride));
    shortcut_norm_ = downsample->register_module("1", torch::nn::BatchNorm2d(to));
  }

  at::Tensor with_shortcut(at::Tensor result, const at::Tensor& x) {
    result += shortcut_.is_empty() ? x : call(shortcut_norm_, call(shortcut_, x));
    return at::relu_(result);
  }

 private:
  torch::nn::Conv2d shortcut_ = nullptr;
  torch::nn::BatchNorm2d shortcut_norm_ = nullptr;
};

class BasicBlock final : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t from, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", convolution(from, width, 3, stride))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, 1))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(width))) {
    add_shortcut(from, width, stride);
  }

  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor result = call(bn1_, call(conv1_, x));
    at::relu_(result);
    return with_shortcut(call(bn2_, call(conv2_, result)), x);
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
};

class Bottleneck final : public Block {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t from, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", convolution(from, width, 1, 1))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, stride))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(width))),
        conv3_(register_module("conv3", convolution(width, width * kExpansion, 1, 1))),
        bn3_(register_module("bn3", torch::nn::BatchNorm2d(width * kExpansion))) {
    add_shortcut(from, width * kExpansion, stride);
  }

  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor result = call(bn1_, call(conv1_, x));
    at::relu_(result);
    result = call(bn2_, call(conv2_, result));
    at::relu_(result);
    return with_shortcut(call(bn3_, call(conv3_, result)), x);
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d bn3_;
};

template <class BlockKind>
class ResNet final : public Model {
 public:
  ResNet(const std::array<int, 4>& depths, std::int64_t classes)
      : Model(classes),
        conv1_(register_module("conv1", convolution(3, 64, 7, 2))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))) {
    std::int64_t channels = 64;
    for (std::size_t i = 0; i < depths.size(); ++i) {
      const auto layer =
          register_module("layer" + std::to_string(i + 1), std::make_shared<torch::nn::Module>());
      const std::int64_t width = std::int64_t{64} << i;
      for (int j = 0; j < depths[i]; ++j) {
        const std::int64_t stride = i > 0 && j == 0 ? 2 : 1;
        blocks_.push_back(layer->register_module(
            std::to_string(j), std::make_shared<BlockKind>(channels, width, stride)));
        channels = width * BlockKind::kExpansion;
      }
    }
    fc_ = register_module("fc", torch::nn::Linear(channels, classes));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2dImpl>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = call(bn1_, call(conv1_, images));
    at::relu_(x);
    x = at::max_pool2d(x, 3, 2, 1);
    for (const std::shared_ptr<BlockKind>& block : blocks_)
      x = call(block, x);
    return call(fc_, at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::vector<std::shared_ptr<BlockKind>> blocks_;
  torch::nn::Linear fc_ = nullptr;
};

}  // namespace

MadeModel make_resnet(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::int64_t classes = parameters.integer("classes");
  if (auto error = colour_model_error(parameters, spec, sample)) {
    return tl::unexpected(*std::move(error));
  }
  if (spec.type == "resnet18") {
    return std::make_shared<ResNet<BasicBlock>>(std::array{2, 2, 2, 2}, classes);
  }
  if (spec.type == "resnet34") {
    return std::make_shared<ResNet<BasicBlock>>(std::array{3, 4, 6, 3}, classes);
  }
  return std::make_shared<ResNet<Bottleneck>>(std::array{3, 4, 6, 3}, classes);
}

}  // namespace autotuned::trainer
