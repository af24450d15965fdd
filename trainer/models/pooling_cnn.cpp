// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/relu.h>

#include <bit>
#include <vector>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/layers.hpp"

namespace autotuned::trainer {
namespace {

// Convolutions of 3x3 and 2x2 max poolings until one pixel is left, whose channels are the classes.
class PoolingCnn final : public Model {
 public:
  PoolingCnn(input::SampleShape sample, std::int64_t hidden, std::int64_t classes)
      : Model(classes),
        first_(register_module("first", same_conv3x3(sample.channels, hidden))),
        halving_(register_module("halving", std::make_shared<torch::nn::Module>())) {
    const int halvings = std::countr_zero(static_cast<std::uint64_t>(sample.height));
    for (int i = 0; i < halvings; ++i) {
      convolutions_.push_back(
          halving_->register_module(std::to_string(i), same_conv3x3(hidden, hidden)));
    }
    last_ = register_module("last", same_conv3x3(hidden, classes));
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = at::relu(call(first_, images));
    for (torch::nn::Conv2d& convolution : convolutions_)
      x = relu_and_halve(call(convolution, x));
    return call(last_, x).flatten(1);
  }

 private:
  torch::nn::Conv2d first_;
  std::shared_ptr<torch::nn::Module> halving_;
  std::vector<torch::nn::Conv2d> convolutions_;
  torch::nn::Conv2d last_ = nullptr;
};

}  // namespace

MadeModel make_pooling_cnn(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::int64_t hidden = parameters.integer("hidden_channels");
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  const bool is_power = std::has_single_bit(static_cast<std::uint64_t>(sample.height));
  if (sample.height != sample.width || sample.height < 2 || !is_power) {
    return unfit(spec.type, "needs square samples whose size is a power of two", sample,
                 "crop or resize them to 256, for example");
  }
  return std::make_shared<PoolingCnn>(sample, hidden, classes);
}

}  // namespace autotuned::trainer
