// SPDX-License-Identifier: Apache-2.0
// EfficientNet-B0 and MobileNetV3 as torchvision builds them: architecture, names, initial values, and the order
// in which random numbers are drawn for them. Both consist of inverted residuals: 1x1 to more channels, a
// convolution of each channel by itself, squeeze and excitation, 1x1 to fewer channels.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

enum class Activation { none, relu, silu, hardswish };

// The settings that the layers of a family share.
struct Norm {
  double epsilon = 1e-5;
  double momentum = 0.1;
};
constexpr Norm kEfficientNorm{};
constexpr Norm kMobileNorm{.epsilon = 1e-3, .momentum = 0.01};

struct ConvolutionShape {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

// A convolution without bias that keeps the size but for its stride, batch normalisation and an activation.
class ConvNorm final : public torch::nn::Module {
 public:
  ConvNorm(const ConvolutionShape& shape, Norm norm, Activation activation)
      : activation_(activation),
        conv_(register_module(
            "0", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.from, shape.to, shape.kernel)
                                       .stride(shape.stride)
                                       .padding(shape.kernel / 2)
                                       .groups(shape.groups)
                                       .bias(false)))),
        norm_(register_module("1", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(shape.to)
                                                              .eps(norm.epsilon)
                                                              .momentum(norm.momentum)))) {}

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor result = call(norm_, call(conv_, x));
    switch (activation_) {
      case Activation::none:
        break;
      case Activation::relu:
        return at::relu_(result);
      case Activation::silu:
        return at::silu(result);
      case Activation::hardswish:
        return at::hardswish(result);
    }
    return result;
  }

 private:
  Activation activation_;
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
};

// A factor for each channel of a sample, from the means of all of them.
class SqueezeExcitation final : public torch::nn::Module {
 public:
  // `is_hard`: MobileNet's activations, ReLU and hard sigmoid, in the place of SiLU and sigmoid.
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, bool is_hard)
      : is_hard_(is_hard),
        fc1_(register_module("fc1",
                             torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, squeezed, 1)))),
        fc2_(register_module("fc2",
                             torch::nn::Conv2d(torch::nn::Conv2dOptions(squeezed, channels, 1)))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor squeezed = call(fc1_, at::adaptive_avg_pool2d(x, {1, 1}));
    const at::Tensor excited = call(fc2_, is_hard_ ? at::relu(squeezed) : at::silu(squeezed));
    return (is_hard_ ? at::hardsigmoid(excited) : at::sigmoid(excited)).mul(x);
  }

 private:
  bool is_hard_;
  torch::nn::Conv2d fc1_;
  torch::nn::Conv2d fc2_;
};

struct BlockShape {
  std::int64_t from = 0;
  std::int64_t kernel = 3;
  std::int64_t expanded = 0;
  std::int64_t to = 0;
  std::int64_t squeezed = 0;  // 0: without squeeze and excitation
  Activation activation = Activation::silu;
  std::int64_t stride = 1;

  [[nodiscard]] bool has_shortcut() const { return stride == 1 && from == to; }
};

class InvertedResidual final : public torch::nn::Module {
 public:
  // `drop_ratio` of 0: no stochastic depth.
  InvertedResidual(const BlockShape& shape, Norm norm, bool is_hard, double drop_ratio)
      : has_shortcut_(shape.has_shortcut()) {
    const auto block = register_module("block", std::make_shared<torch::nn::Module>());
    int layers = 0;
    const auto add = [&](const ConvolutionShape& conv, Activation activation) {
      return block->register_module(std::to_string(layers++),
                                    std::make_shared<ConvNorm>(conv, norm, activation));
    };
    if (shape.expanded != shape.from) {
      expand_ = add({.from = shape.from, .to = shape.expanded}, shape.activation);
    }
    depthwise_ = add({.from = shape.expanded,
                      .to = shape.expanded,
                      .kernel = shape.kernel,
                      .stride = shape.stride,
                      .groups = shape.expanded},
                     shape.activation);
    if (shape.squeezed > 0) {
      excitation_ = block->register_module(
          std::to_string(layers++),
          std::make_shared<SqueezeExcitation>(shape.expanded, shape.squeezed, is_hard));
    }
    project_ = add({.from = shape.expanded, .to = shape.to}, Activation::none);
    if (has_shortcut_ && drop_ratio > 0.0) {
      depth_ = register_module("stochastic_depth", std::make_shared<StochasticDepth>(drop_ratio));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor result = call(depthwise_, expand_ == nullptr ? x : call(expand_, x));
    if (excitation_ != nullptr) result = call(excitation_, result);
    result = call(project_, result);
    if (depth_ != nullptr) result = call(depth_, result);
    return has_shortcut_ ? result.add_(x) : result;
  }

 private:
  bool has_shortcut_;
  std::shared_ptr<ConvNorm> expand_;  // null: the block has as many channels as its input
  std::shared_ptr<ConvNorm> depthwise_;
  std::shared_ptr<SqueezeExcitation> excitation_;
  std::shared_ptr<ConvNorm> project_;
  std::shared_ptr<StochasticDepth> depth_;
};

using Blocks = std::vector<std::shared_ptr<InvertedResidual>>;

at::Tensor through(Blocks& blocks, at::Tensor x) {
  for (std::shared_ptr<InvertedResidual>& block : blocks)
    x = call(block, x);
  return x;
}

void initialise_convolutions(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* const conv = module->as<torch::nn::Conv2dImpl>();
    if (conv == nullptr) continue;
    torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
    if (conv->bias.defined()) torch::nn::init::zeros_(conv->bias);
  }
}

// --- EfficientNet ---------------------------------------------------------------------------------

struct EfficientStage {
  std::int64_t expansion = 6;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
  int blocks = 1;
};
constexpr std::array<EfficientStage, 7> kEfficientB0 = {
    EfficientStage{1, 3, 1, 32, 16, 1},  EfficientStage{6, 3, 2, 16, 24, 2},
    EfficientStage{6, 5, 2, 24, 40, 2},  EfficientStage{6, 3, 2, 40, 80, 3},
    EfficientStage{6, 5, 1, 80, 112, 3}, EfficientStage{6, 5, 2, 112, 192, 4},
    EfficientStage{6, 3, 1, 192, 320, 1}};
constexpr std::int64_t kEfficientWidth = 1280;

class EfficientNet final : public Model {
 public:
  // The share of samples for which a block is left out rises with its depth, from 0 towards `drop_ratio`.
  EfficientNet(double dropout, double drop_ratio, std::int64_t classes)
      : Model(classes), dropout_(dropout) {
    const auto features = register_module("features", std::make_shared<torch::nn::Module>());
    const auto add = [&](std::size_t index, const ConvolutionShape& shape) {
      return features->register_module(
          std::to_string(index),
          std::make_shared<ConvNorm>(shape, kEfficientNorm, Activation::silu));
    };
    first_ = add(0, {.from = 3, .to = kEfficientB0[0].from, .kernel = 3, .stride = 2});
    int all_blocks = 0;
    for (const EfficientStage& stage : kEfficientB0)
      all_blocks += stage.blocks;
    for (std::size_t i = 0; i < kEfficientB0.size(); ++i) {
      const EfficientStage& stage = kEfficientB0[i];
      const auto module =
          features->register_module(std::to_string(i + 1), std::make_shared<torch::nn::Module>());
      for (int j = 0; j < stage.blocks; ++j) {
        const std::int64_t from = j == 0 ? stage.from : stage.to;
        const BlockShape shape{.from = from,
                               .kernel = stage.kernel,
                               .expanded = from * stage.expansion,
                               .to = stage.to,
                               .squeezed = from / 4,
                               .activation = Activation::silu,
                               .stride = j == 0 ? stage.stride : 1};
        const double ratio = drop_ratio * static_cast<double>(blocks_.size()) / all_blocks;
        blocks_.push_back(module->register_module(
            std::to_string(j), std::make_shared<InvertedResidual>(shape, kEfficientNorm,
                                                                  /*is_hard=*/false, ratio)));
      }
    }
    last_ = add(kEfficientB0.size() + 1, {.from = kEfficientB0.back().to, .to = kEfficientWidth});
    const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    head_ = classifier->register_module("1", torch::nn::Linear(kEfficientWidth, classes));
    initialise_convolutions(*this);
    const double range = 1.0 / std::sqrt(static_cast<double>(classes));
    torch::nn::init::uniform_(head_->weight, -range, range);
    torch::nn::init::zeros_(head_->bias);
  }

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor x = call(last_, through(blocks_, call(first_, images)));
    const at::Tensor pooled = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    return call(head_, at::dropout(pooled, dropout_, is_training()));
  }

 private:
  double dropout_;
  std::shared_ptr<ConvNorm> first_;
  Blocks blocks_;
  std::shared_ptr<ConvNorm> last_;
  torch::nn::Linear head_ = nullptr;
};

// --- MobileNetV3 ----------------------------------------------------------------------------------

constexpr Activation kRelu = Activation::relu;
constexpr Activation kHardswish = Activation::hardswish;

constexpr std::array<BlockShape, 15> kMobileLarge = {
    BlockShape{16, 3, 16, 16, 0, kRelu, 1},
    BlockShape{16, 3, 64, 24, 0, kRelu, 2},
    BlockShape{24, 3, 72, 24, 0, kRelu, 1},
    BlockShape{24, 5, 72, 40, 24, kRelu, 2},
    BlockShape{40, 5, 120, 40, 32, kRelu, 1},
    BlockShape{40, 5, 120, 40, 32, kRelu, 1},
    BlockShape{40, 3, 240, 80, 0, kHardswish, 2},
    BlockShape{80, 3, 200, 80, 0, kHardswish, 1},
    BlockShape{80, 3, 184, 80, 0, kHardswish, 1},
    BlockShape{80, 3, 184, 80, 0, kHardswish, 1},
    BlockShape{80, 3, 480, 112, 120, kHardswish, 1},
    BlockShape{112, 3, 672, 112, 168, kHardswish, 1},
    BlockShape{112, 5, 672, 160, 168, kHardswish, 2},
    BlockShape{160, 5, 960, 160, 240, kHardswish, 1},
    BlockShape{160, 5, 960, 160, 240, kHardswish, 1}};
constexpr std::array<BlockShape, 11> kMobileSmall = {
    BlockShape{16, 3, 16, 16, 8, kRelu, 2},        BlockShape{16, 3, 72, 24, 0, kRelu, 2},
    BlockShape{24, 3, 88, 24, 0, kRelu, 1},        BlockShape{24, 5, 96, 40, 24, kHardswish, 2},
    BlockShape{40, 5, 240, 40, 64, kHardswish, 1}, BlockShape{40, 5, 240, 40, 64, kHardswish, 1},
    BlockShape{40, 5, 120, 48, 32, kHardswish, 1}, BlockShape{48, 5, 144, 48, 40, kHardswish, 1},
    BlockShape{48, 5, 288, 96, 72, kHardswish, 2}, BlockShape{96, 5, 576, 96, 144, kHardswish, 1},
    BlockShape{96, 5, 576, 96, 144, kHardswish, 1}};
constexpr std::int64_t kMobileLargeHidden = 1280;
constexpr std::int64_t kMobileSmallHidden = 1024;
constexpr double kMobileDeviation = 0.01;

class MobileNet final : public Model {
 public:
  MobileNet(std::span<const BlockShape> shapes, std::int64_t hidden, double dropout,
            std::int64_t classes)
      : Model(classes), dropout_(dropout) {
    const auto features = register_module("features", std::make_shared<torch::nn::Module>());
    const auto add = [&](std::size_t index, const ConvolutionShape& shape) {
      return features->register_module(std::to_string(index),
                                       std::make_shared<ConvNorm>(shape, kMobileNorm, kHardswish));
    };
    first_ = add(0, {.from = 3, .to = shapes.front().from, .kernel = 3, .stride = 2});
    for (const BlockShape& shape : shapes) {
      blocks_.push_back(features->register_module(
          std::to_string(blocks_.size() + 1),
          std::make_shared<InvertedResidual>(shape, kMobileNorm, /*is_hard=*/true,
                                             /*drop_ratio=*/0.0)));
    }
    const std::int64_t width = 6 * shapes.back().to;
    last_ = add(shapes.size() + 1, {.from = shapes.back().to, .to = width});
    const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    hidden_ = classifier->register_module("0", torch::nn::Linear(width, hidden));
    head_ = classifier->register_module("3", torch::nn::Linear(hidden, classes));
    initialise_convolutions(*this);
    for (const torch::nn::Linear& linear : {hidden_, head_}) {
      torch::nn::init::normal_(linear->weight, 0.0, kMobileDeviation);
      torch::nn::init::zeros_(linear->bias);
    }
  }

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor x = call(last_, through(blocks_, call(first_, images)));
    const at::Tensor pooled = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    const at::Tensor hidden = at::hardswish(call(hidden_, pooled));
    return call(head_, at::dropout(hidden, dropout_, is_training()));
  }

 private:
  double dropout_;
  std::shared_ptr<ConvNorm> first_;
  Blocks blocks_;
  std::shared_ptr<ConvNorm> last_;
  torch::nn::Linear hidden_ = nullptr;
  torch::nn::Linear head_ = nullptr;
};

}  // namespace

MadeModel make_efficientnet(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const double dropout = parameters.number("dropout");
  const double drop_ratio = parameters.number("stochastic_depth");
  const std::int64_t classes = parameters.integer("classes");
  if (auto error = colour_model_error(parameters, spec, sample)) {
    return tl::unexpected(*std::move(error));
  }
  return std::make_shared<EfficientNet>(dropout, drop_ratio, classes);
}

MadeModel make_mobilenet(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const double dropout = parameters.number("dropout");
  const std::int64_t classes = parameters.integer("classes");
  if (auto error = colour_model_error(parameters, spec, sample)) {
    return tl::unexpected(*std::move(error));
  }
  if (spec.type == "mobilenet_v3_large") {
    return std::make_shared<MobileNet>(kMobileLarge, kMobileLargeHidden, dropout, classes);
  }
  return std::make_shared<MobileNet>(kMobileSmall, kMobileSmallHidden, dropout, classes);
}

}  // namespace autotuned::trainer
