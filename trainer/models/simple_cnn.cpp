// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/relu.h>
#include <torch/nn/modules/linear.h>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kChannels = 128;
constexpr std::int64_t kHidden = 256;

// Four 3x3 convolutions of 128 channels, each with ReLU and 2x2 max pooling, then two linear layers.
class SimpleCnn final : public Model {
 public:
  SimpleCnn(input::SampleShape sample, std::int64_t classes)
      : Model(classes),
        conv1_(register_module("conv1", same_conv3x3(sample.channels, kChannels))),
        conv2_(register_module("conv2", same_conv3x3(kChannels, kChannels))),
        conv3_(register_module("conv3", same_conv3x3(kChannels, kChannels))),
        conv4_(register_module("conv4", same_conv3x3(kChannels, kChannels))),
        hidden_(register_module(
            "hidden",
            torch::nn::Linear(kChannels * (sample.height / 16) * (sample.width / 16), kHidden))),
        output_(register_module("output", torch::nn::Linear(kHidden, classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = relu_and_halve(call(conv1_, images));
    x = relu_and_halve(call(conv2_, x));
    x = relu_and_halve(call(conv3_, x));
    x = relu_and_halve(call(conv4_, x));
    return call(output_, at::relu(call(hidden_, x.flatten(1))));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Conv2d conv3_;
  torch::nn::Conv2d conv4_;
  torch::nn::Linear hidden_;
  torch::nn::Linear output_;
};

}  // namespace

MadeModel make_simple_cnn(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  if (sample.height < 16 || sample.width < 16) {
    return unfit(spec.type, "needs samples of at least 16 x 16", sample,
                 "enlarge them with the transform resize");
  }
  return std::make_shared<SimpleCnn>(sample, classes);
}

}  // namespace autotuned::trainer
