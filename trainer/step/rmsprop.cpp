// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/rmsprop.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>

#include <utility>

#include "trainer/step/optimizer_parts.hpp"

namespace autotuned::trainer {
namespace {

// LibTorch has no fused kernel for it: the list operators do either way.
class RmsProp final : public Optimizer {
 public:
  RmsProp(std::vector<at::Tensor> parameters, RmsPropOptions options)
      : parameters_(std::move(parameters)),
        options_(options),
        squares_(parameters_.size()),
        means_(parameters_.size()),
        momenta_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    const Lists lists = gathered();
    if (!lists.stepped.parameters.empty()) update(lists, learning_rate);
  }

  void step_on_device(const std::optional<at::Tensor>& found_inf) override {
    const at::NoGradGuard no_grad;
    const Lists lists = gathered();
    if (lists.stepped.parameters.empty()) return;
    std::vector<at::Tensor> changed = lists.stepped.parameters;
    for (const auto* list : {&lists.squares, &lists.means, &lists.momenta})
      changed.insert(changed.end(), list->begin(), list->end());
    change_unless(found_inf, changed, [&] { update(lists, learning_rate_on_device()); });
  }

  std::vector<StateList> state() override {
    return {{"mean_of_squares", &squares_}, {"mean", &means_}, {"momentum", &momenta_}};
  }

 protected:
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }

  std::vector<at::Tensor> buffers_on_device() const override {
    std::vector<at::Tensor> all = squares_;
    all.insert(all.end(), means_.begin(), means_.end());
    all.insert(all.end(), momenta_.begin(), momenta_.end());
    return all;
  }

 private:
  struct Lists {
    Stepped stepped;
    std::vector<at::Tensor> squares;
    std::vector<at::Tensor> means;    // empty unless centered
    std::vector<at::Tensor> momenta;  // empty without momentum
  };

  Lists gathered() {
    Lists lists{.stepped = stepped_of(parameters_)};
    lists.squares = state_of(squares_, lists.stepped);
    if (options_.is_centered) lists.means = state_of(means_, lists.stepped);
    if (options_.momentum > 0.0) lists.momenta = state_of(momenta_, lists.stepped);
    return lists;
  }

  // The learning rate is a number, or a tensor on the device.
  template <class Rate>
  void update(const Lists& lists, const Rate& learning_rate) const {
    const std::vector<at::Tensor>& parameters = lists.stepped.parameters;
    std::vector<at::Tensor> grads = lists.stepped.grads;
    if (options_.weight_decay != 0.0) {
      grads = at::_foreach_add(grads, parameters, options_.weight_decay);
    }
    at::_foreach_mul_(lists.squares, options_.alpha);
    at::_foreach_addcmul_(lists.squares, grads, grads, 1.0 - options_.alpha);
    std::vector<at::Tensor> denominators;
    if (options_.is_centered) {
      at::_foreach_lerp_(lists.means, grads, 1.0 - options_.alpha);
      denominators = at::_foreach_addcmul(lists.squares, lists.means, lists.means, -1.0);
      at::_foreach_sqrt_(denominators);
    } else {
      denominators = at::_foreach_sqrt(lists.squares);
    }
    at::_foreach_add_(denominators, options_.epsilon);
    if (options_.momentum > 0.0) {
      at::_foreach_mul_(lists.momenta, options_.momentum);
      at::_foreach_addcdiv_(lists.momenta, grads, denominators);
      subtract(parameters, lists.momenta, learning_rate);
    } else {
      subtract_quotients(parameters, grads, denominators, learning_rate);
    }
  }

  std::vector<at::Tensor> parameters_;
  RmsPropOptions options_;
  std::vector<at::Tensor> squares_;  // running means of the gradients' squares
  std::vector<at::Tensor> means_;    // and of the gradients
  std::vector<at::Tensor> momenta_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(std::vector<at::Tensor> parameters,
                                        RmsPropOptions options) {
  return std::make_unique<RmsProp>(std::move(parameters), options);
}

}  // namespace autotuned::trainer
