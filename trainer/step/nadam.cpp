// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/nadam.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "trainer/step/optimizer_parts.hpp"

namespace autotuned::trainer {
namespace {

// PyTorch's constant, after Dozat's paper.
constexpr double kBase = 0.96;

// LibTorch has no fused kernel for it: the list operators do either way.
class NAdam final : public Optimizer {
 public:
  NAdam(std::vector<at::Tensor> parameters, NAdamOptions options)
      : parameters_(std::move(parameters)),
        options_(options),
        means_(parameters_.size()),
        squares_(parameters_.size()),
        counts_(parameters_.size()),
        products_on_device_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    move_to_host();
    const Lists lists = gathered();
    if (lists.stepped.parameters.empty()) return;
    std::vector<at::Scalar> corrections;
    std::vector<at::Scalar> of_grads;
    std::vector<at::Scalar> of_means;
    for (const std::size_t i : lists.stepped.indices) {
      const double count = counts_.next(i);
      const double momentum = momentum_at(count);
      const double next = momentum_at(count + 1.0);
      const double product = product_at(static_cast<std::int64_t>(count));
      corrections.emplace_back(1.0 - std::pow(options_.beta2, count));
      of_grads.emplace_back(-learning_rate * (1.0 - momentum) / (1.0 - product));
      of_means.emplace_back((-learning_rate * next) / (1.0 - product * next));
    }
    const std::vector<at::Tensor> grads = update_means(lists);
    std::vector<at::Tensor> denominators = at::_foreach_div(lists.squares, corrections);
    at::_foreach_sqrt_(denominators);
    at::_foreach_add_(denominators, options_.epsilon);
    at::_foreach_addcdiv_(lists.stepped.parameters, grads, denominators, of_grads);
    at::_foreach_addcdiv_(lists.stepped.parameters, lists.means, denominators, of_means);
  }

  void step_on_device(const std::optional<at::Tensor>& found_inf) override {
    const at::NoGradGuard no_grad;
    const Lists lists = gathered();
    const std::vector<at::Tensor>& parameters = lists.stepped.parameters;
    if (parameters.empty()) return;
    std::vector<at::Tensor> counts;
    std::vector<at::Tensor> products;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::size_t place = lists.stepped.indices[i];
      counts.push_back(counts_.on_device(place, parameters[i]));
      products.push_back(product_on_device(place, parameters[i]));
    }
    std::vector<at::Tensor> changed = parameters;
    for (const auto& list : {lists.means, lists.squares, counts, products})
      changed.insert(changed.end(), list.begin(), list.end());
    change_unless(found_inf, changed, [&] { update_on_device(lists, counts, products); });
  }

  std::vector<StateList> state() override {
    move_to_host();
    return {{"mean", &means_}, {"mean_of_squares", &squares_}, {"steps", &counts_.all_on_host()}};
  }

 protected:
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }

  std::vector<at::Tensor> buffers_on_device() const override {
    std::vector<at::Tensor> all = means_;
    for (const auto* list : {&squares_, &counts_.all_on_device(), &products_on_device_})
      all.insert(all.end(), list->begin(), list->end());
    return all;
  }

  void move_counts_to_device() override {
    if (are_products_on_device_) return;
    are_products_on_device_ = true;
    counts_.move_to_device(parameters_);
    const std::vector<at::Tensor>& counts = counts_.all_on_host();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!counts[i].defined()) {
        products_on_device_[i].reset();
        continue;
      }
      product_on_device(i, parameters_[i]).fill_(product_at(counts[i].item<std::int64_t>()));
    }
  }

 private:
  struct Lists {
    Stepped stepped;
    std::vector<at::Tensor> means;
    std::vector<at::Tensor> squares;
  };

  Lists gathered() {
    Lists lists{.stepped = stepped_of(parameters_)};
    for (const std::size_t i : lists.stepped.indices)
      if (!means_[i].defined()) counts_.begin(i);
    lists.means = state_of(means_, lists.stepped);
    lists.squares = state_of(squares_, lists.stepped);
    return lists;
  }

  void move_to_host() {
    counts_.move_to_host();
    are_products_on_device_ = false;
  }

  double momentum_at(double count) const {
    return options_.beta1 * (1.0 - 0.5 * std::pow(kBase, count * options_.momentum_decay));
  }

  at::Tensor momentum_at(const at::Tensor& count) const {
    return (1.0 - 0.5 * at::pow(kBase, count * options_.momentum_decay)) * options_.beta1;
  }

  // The product of the momenta of the first `count` steps; PyTorch multiplies them in 32 bits.
  double product_at(std::int64_t count) {
    while (static_cast<std::int64_t>(products_.size()) <= count) {
      const double momentum = momentum_at(static_cast<double>(products_.size()));
      products_.push_back(products_.back() * static_cast<float>(momentum));
    }
    return static_cast<double>(products_[static_cast<std::size_t>(count)]);
  }

  const at::Tensor& product_on_device(std::size_t i, const at::Tensor& parameter) {
    if (!products_on_device_[i].defined()) {
      products_on_device_[i] =
          at::ones({}, parameter.options().dtype(at::kFloat).requires_grad(false));
    }
    return products_on_device_[i];
  }

  // The gradients, with the weight decay.
  std::vector<at::Tensor> update_means(const Lists& lists) const {
    std::vector<at::Tensor> grads = lists.stepped.grads;
    if (options_.weight_decay != 0.0) {
      grads = at::_foreach_add(grads, lists.stepped.parameters, options_.weight_decay);
    }
    at::_foreach_lerp_(lists.means, grads, 1.0 - options_.beta1);
    at::_foreach_mul_(lists.squares, options_.beta2);
    at::_foreach_addcmul_(lists.squares, grads, grads, 1.0 - options_.beta2);
    return grads;
  }

  void update_on_device(const Lists& lists, const std::vector<at::Tensor>& counts,
                        const std::vector<at::Tensor>& products) {
    const std::vector<at::Tensor> grads = update_means(lists);
    const at::Tensor& rate = learning_rate_on_device();
    at::_foreach_add_(counts, 1.0);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      // In 64 bits as on the host: the differences from 1 are small.
      const at::Tensor count = counts[i].to(at::kDouble);
      const at::Tensor momentum = momentum_at(count);
      const at::Tensor next = momentum_at(count + 1.0);
      products[i].mul_(momentum);
      const at::Tensor correction = 1.0 - at::pow(options_.beta2, count);
      const at::Tensor denominator = (lists.squares[i] / correction).sqrt_().add_(options_.epsilon);
      const at::Tensor& parameter = lists.stepped.parameters[i];
      parameter.sub_(grads[i] / denominator * (rate * (1.0 - momentum) / (1.0 - products[i])));
      parameter.sub_(lists.means[i] / denominator * (rate * next / (1.0 - products[i] * next)));
    }
  }

  std::vector<at::Tensor> parameters_;
  NAdamOptions options_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> squares_;
  StepCounts counts_;
  std::vector<float> products_ = {1.0F};  // by count
  std::vector<at::Tensor> products_on_device_;
  bool are_products_on_device_ = false;  // those are newer
};

}  // namespace

std::unique_ptr<Optimizer> make_nadam(std::vector<at::Tensor> parameters, NAdamOptions options) {
  return std::make_unique<NAdam>(std::move(parameters), options);
}

}  // namespace autotuned::trainer
