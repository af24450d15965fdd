// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/lion.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>

#include <utility>

#include "trainer/step/optimizer_parts.hpp"

namespace autotuned::trainer {
namespace {

double share_left(double learning_rate, double decay) {
  return 1.0 - learning_rate * decay;
}

at::Tensor share_left(const at::Tensor& learning_rate, double decay) {
  return learning_rate.mul(-decay).add(1.0);
}

// LibTorch has no fused kernel for it: the list operators do either way.
class Lion final : public Optimizer {
 public:
  Lion(std::vector<at::Tensor> parameters, LionOptions options)
      : parameters_(std::move(parameters)), options_(options), means_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    const Stepped stepped = stepped_of(parameters_);
    if (stepped.parameters.empty()) return;
    update(stepped, state_of(means_, stepped), learning_rate);
  }

  void step_on_device(const std::optional<at::Tensor>& found_inf) override {
    const at::NoGradGuard no_grad;
    const Stepped stepped = stepped_of(parameters_);
    if (stepped.parameters.empty()) return;
    const std::vector<at::Tensor> means = state_of(means_, stepped);
    std::vector<at::Tensor> changed = stepped.parameters;
    changed.insert(changed.end(), means.begin(), means.end());
    change_unless(found_inf, changed, [&] { update(stepped, means, learning_rate_on_device()); });
  }

  std::vector<StateList> state() override { return {{"mean", &means_}}; }

 protected:
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }
  std::vector<at::Tensor> buffers_on_device() const override { return means_; }

 private:
  // The learning rate is a number, or a tensor on the device.
  template <class Rate>
  void update(const Stepped& stepped, const std::vector<at::Tensor>& means,
              const Rate& learning_rate) const {
    if (options_.weight_decay != 0.0) {
      at::_foreach_mul_(stepped.parameters, share_left(learning_rate, options_.weight_decay));
    }
    std::vector<at::Tensor> updates = at::_foreach_mul(means, options_.beta1);
    at::_foreach_add_(updates, stepped.grads, 1.0 - options_.beta1);
    at::_foreach_sign_(updates);
    subtract(stepped.parameters, updates, learning_rate);
    at::_foreach_mul_(means, options_.beta2);
    at::_foreach_add_(means, stepped.grads, 1.0 - options_.beta2);
  }

  std::vector<at::Tensor> parameters_;
  LionOptions options_;
  std::vector<at::Tensor> means_;  // of the gradients
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(std::vector<at::Tensor> parameters, LionOptions options) {
  return std::make_unique<Lion>(std::move(parameters), options);
}

}  // namespace autotuned::trainer
