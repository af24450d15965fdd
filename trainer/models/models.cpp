// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "base/json.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {
namespace {

// Two 3x3 convolutions, each with ReLU and 2x2 max pooling, then one linear layer. ReLU comes after the
// pooling: the same bits, forward and backward, for a quarter of the work.
class FashionCnn final : public Model {
 public:
  FashionCnn(input::SampleShape sample, std::int64_t classes)
      : Model(classes),
        conv1_(register_module("conv1", same_conv(sample.channels, 32))),
        conv2_(register_module("conv2", same_conv(32, 64))),
        linear_(register_module(
            "linear", torch::nn::Linear(64 * (sample.height / 4) * (sample.width / 4), classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = at::relu(at::max_pool2d(conv1_->forward(images), 2));
    x = at::relu(at::max_pool2d(conv2_->forward(x), 2));
    return linear_->forward(x.flatten(1));
  }

 private:
  static torch::nn::Conv2d same_conv(std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
  }

  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear linear_;
};

// One hidden layer with ReLU on the flattened sample.
class Mlp final : public Model {
 public:
  Mlp(input::SampleShape sample, std::int64_t hidden, std::int64_t classes)
      : Model(classes),
        hidden_(register_module("hidden", torch::nn::Linear(sample.elements(), hidden))),
        output_(register_module("output", torch::nn::Linear(hidden, classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    return output_->forward(at::relu(hidden_->forward(images.flatten(1))));
  }

 private:
  torch::nn::Linear hidden_;
  torch::nn::Linear output_;
};

}  // namespace

Result<std::shared_ptr<Model>> make_model(const recipes::Typed& spec, input::SampleShape sample) {
  const auto classes = get_integer(spec.parameters, "classes");
  if (!classes) return tl::unexpected(classes.error());
  if (spec.type == "fashion_cnn") {
    if (sample.height < 4 || sample.width < 4) {
      return fail(ErrorKind::invalid, "needs samples of at least 4 x 4", "model fashion_cnn");
    }
    return std::make_shared<FashionCnn>(sample, *classes);
  }
  if (spec.type == "mlp") {
    const auto hidden = get_integer(spec.parameters, "hidden");
    if (!hidden) return tl::unexpected(hidden.error());
    return std::make_shared<Mlp>(sample, *hidden, *classes);
  }
  return fail(ErrorKind::unsupported, "this trainer has no model '" + spec.type + "'");
}

}  // namespace autotuned::trainer
