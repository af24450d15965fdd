// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <thread>

#include "trainer/models/call.hpp"
#include "trainer/models/families.hpp"

namespace autotuned::trainer {
namespace {

// Simulates an accelerator: reads every pixel, learns from the mean of each channel, and makes the step wait as if
// another device computed.
class Paced final : public Model {
 public:
  Paced(input::SampleShape sample, std::chrono::duration<double, std::milli> wait,
        std::int64_t classes)
      : Model(classes),
        wait_(wait),
        linear_(register_module("linear", torch::nn::Linear(sample.channels, classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor logits = call(linear_, images.mean({2, 3}));
    if (is_training() && wait_.count() > 0.0) std::this_thread::sleep_for(wait_);
    return logits;
  }

 private:
  std::chrono::duration<double, std::milli> wait_;
  torch::nn::Linear linear_;
};

}  // namespace

MadeModel make_paced(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::chrono::duration<double, std::milli> wait(parameters.number("step_ms"));
  const std::int64_t classes = parameters.integer("classes");
  if (parameters.error()) return tl::unexpected(*parameters.error());
  return std::make_shared<Paced>(sample, wait, classes);
}

}  // namespace autotuned::trainer
