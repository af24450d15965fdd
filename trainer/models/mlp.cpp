// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/relu.h>
#include <torch/nn/modules/linear.h>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"

namespace autotuned::trainer {
namespace {

// One hidden layer with ReLU on the flattened sample.
class Mlp final : public Model {
 public:
  Mlp(input::SampleShape sample, std::int64_t hidden, std::int64_t classes)
      : Model(classes),
        hidden_(register_module("hidden", torch::nn::Linear(sample.elements(), hidden))),
        output_(register_module("output", torch::nn::Linear(hidden, classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    return call(output_, at::relu(call(hidden_, images.flatten(1))));
  }

 private:
  torch::nn::Linear hidden_;
  torch::nn::Linear output_;
};

}  // namespace

MadeModel make_mlp(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::int64_t hidden = parameters.integer("hidden");
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  return std::make_shared<Mlp>(sample, hidden, classes);
}

}  // namespace autotuned::trainer
