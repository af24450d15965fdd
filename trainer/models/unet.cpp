// SPDX-License-Identifier: Apache-2.0
// U-Net (Ronneberger, Fischer and Brox 2015) with batch norm and convolutions that keep the size, so that there is a
// class for every pixel of the image. With width 64 and depth 4 the parameters have the names and shapes of the
// U-Net that most programs with PyTorch use (github.com/milesial/Pytorch-UNet, without bilinear).
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"

namespace autotuned::trainer {
namespace {

// Twice a convolution, batch norm and ReLU.
class DoubleConvolution final : public torch::nn::Module {
 public:
  DoubleConvolution(std::int64_t from, std::int64_t to) {
    const auto layers = register_module("double_conv", std::make_shared<torch::nn::Module>());
    conv1_ = layers->register_module("0", convolution(from, to));
    norm1_ = layers->register_module("1", torch::nn::BatchNorm2d(to));
    conv2_ = layers->register_module("3", convolution(to, to));
    norm2_ = layers->register_module("4", torch::nn::BatchNorm2d(to));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor result = call(norm1_, call(conv1_, x));
    at::relu_(result);
    result = call(norm2_, call(conv2_, result));
    return at::relu_(result);
  }

 private:
  static torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
  }

  torch::nn::Conv2d conv1_ = nullptr;
  torch::nn::BatchNorm2d norm1_ = nullptr;
  torch::nn::Conv2d conv2_ = nullptr;
  torch::nn::BatchNorm2d norm2_ = nullptr;
};

class UNet final : public Model {
 public:
  UNet(std::int64_t channels, std::int64_t width, std::int64_t depth, std::int64_t classes)
      : Model(classes, /*gives_maps=*/true),
        inc_(register_module("inc", std::make_shared<DoubleConvolution>(channels, width))) {
    for (std::int64_t i = 1; i <= depth; ++i) {
      const auto down =
          register_module("down" + std::to_string(i), std::make_shared<torch::nn::Module>());
      const auto layers =
          down->register_module("maxpool_conv", std::make_shared<torch::nn::Module>());
      downs_.push_back(layers->register_module(
          "1", std::make_shared<DoubleConvolution>(width << (i - 1), width << i)));
    }
    for (std::int64_t i = 1; i <= depth; ++i) {
      const auto up =
          register_module("up" + std::to_string(i), std::make_shared<torch::nn::Module>());
      const std::int64_t from = width << (depth - i + 1);
      Up& made = ups_.emplace_back();
      made.larger = up->register_module(
          "up", torch::nn::ConvTranspose2d(
                    torch::nn::ConvTranspose2dOptions(from, from / 2, 2).stride(2)));
      made.conv = up->register_module("conv", std::make_shared<DoubleConvolution>(from, from / 2));
    }
    const auto out = register_module("outc", std::make_shared<torch::nn::Module>());
    out_ = out->register_module("conv",
                                torch::nn::Conv2d(torch::nn::Conv2dOptions(width, classes, 1)));
  }

  at::Tensor forward(const at::Tensor& images) override {
    std::vector<at::Tensor> skipped;
    at::Tensor x = call(inc_, images);
    for (const std::shared_ptr<DoubleConvolution>& down : downs_) {
      skipped.push_back(x);
      x = call(down, at::max_pool2d(x, 2));
    }
    for (Up& up : ups_) {
      x = call(up.conv, at::cat({skipped.back(), call(up.larger, x)}, 1));
      skipped.pop_back();
    }
    return call(out_, x);
  }

 private:
  struct Up {
    torch::nn::ConvTranspose2d larger = nullptr;
    std::shared_ptr<DoubleConvolution> conv;
  };

  std::shared_ptr<DoubleConvolution> inc_;
  std::vector<std::shared_ptr<DoubleConvolution>> downs_;
  std::vector<Up> ups_;
  torch::nn::Conv2d out_ = nullptr;
};

}  // namespace

MadeModel make_unet(const recipes::Component& spec, input::SampleShape sample) {
  constexpr std::int64_t kMaxDepth = 8;
  ModelParameters parameters(spec);
  const std::int64_t width = parameters.integer("width");
  const std::int64_t depth = parameters.integer("depth");
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  if (width < 1 || depth < 1 || depth > kMaxDepth || classes < 1) {
    return fail(ErrorKind::invalid, "width, depth and classes do not fit", "model unet",
                "use a width of at least 1 and a depth from 1 to 8");
  }
  const std::int64_t multiple = std::int64_t{1} << depth;
  if (sample.height % multiple != 0 || sample.width % multiple != 0) {
    return unfit(
        spec.type,
        "needs samples whose height and width are multiples of " + std::to_string(multiple), sample,
        "resize or crop them to such a size, pad them, or use a smaller depth");
  }
  return std::make_shared<UNet>(sample.channels, width, depth, classes);
}

}  // namespace autotuned::trainer
