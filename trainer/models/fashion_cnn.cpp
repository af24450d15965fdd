// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/linear.h>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

// Two 3x3 convolutions, each with ReLU and 2x2 max pooling, then one linear layer.
class FashionCnn final : public Model {
 public:
  FashionCnn(input::SampleShape sample, std::int64_t classes)
      : Model(classes),
        conv1_(register_module("conv1", same_conv3x3(sample.channels, 32))),
        conv2_(register_module("conv2", same_conv3x3(32, 64))),
        linear_(register_module(
            "linear", torch::nn::Linear(64 * (sample.height / 4) * (sample.width / 4), classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = relu_and_halve(call(conv1_, images));
    x = relu_and_halve(call(conv2_, x));
    return call(linear_, x.flatten(1));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear linear_;
};

}  // namespace

MadeModel make_fashion_cnn(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  if (sample.height < 4 || sample.width < 4) {
    return unfit(spec.type, "needs samples of at least 4 x 4", sample, "use larger images");
  }
  return std::make_shared<FashionCnn>(sample, classes);
}

}  // namespace autotuned::trainer
