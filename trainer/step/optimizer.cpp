// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/optimizer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "base/json.hpp"
#include "trainer/step/adagrad.hpp"
#include "trainer/step/lion.hpp"
#include "trainer/step/nadam.hpp"
#include "trainer/step/optimizer_parts.hpp"
#include "trainer/step/rmsprop.hpp"

namespace autotuned::trainer {
namespace {

class Sgd final : public Optimizer {
 public:
  struct Options {
    double momentum = 0.0;
    double weight_decay = 0.0;
    bool is_nesterov = false;
  };

  Sgd(std::vector<at::Tensor> parameters, Options options)
      : parameters_(std::move(parameters)), options_(options), momentum_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> stepped;
    std::vector<at::Tensor> kept;  // momentum of those that had one before
    std::vector<at::Tensor> kept_grads;
    std::vector<std::size_t> indices;
    grads.reserve(parameters_.size());
    stepped.reserve(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& grad = parameters_[i].grad();
      if (!grad.defined()) continue;
      grads.push_back(grad);
      stepped.push_back(parameters_[i]);
      indices.push_back(i);
    }
    if (stepped.empty()) return;
    if (is_fused()) {
      step_fused(stepped, grads, indices, learning_rate);
      return;
    }
    if (options_.weight_decay != 0.0) {
      grads = at::_foreach_add(grads, stepped, options_.weight_decay);
    }
    if (options_.momentum == 0.0) {
      at::_foreach_add_(stepped, grads, -learning_rate);
      return;
    }

    std::vector<at::Tensor> momenta;
    momenta.reserve(stepped.size());
    for (std::size_t i = 0; i < stepped.size(); ++i) {
      at::Tensor& momentum = momentum_[indices[i]];
      if (momentum.defined()) {
        kept.push_back(momentum);
        kept_grads.push_back(grads[i]);
      } else {
        momentum = at::empty_like(stepped[i]).copy_(grads[i]);
      }
      momenta.push_back(momentum);
    }
    if (!kept.empty()) {
      at::_foreach_mul_(kept, options_.momentum);
      at::_foreach_add_(kept, kept_grads);
    }
    if (options_.is_nesterov) {
      at::_foreach_add_(stepped, at::_foreach_add(grads, momenta, options_.momentum),
                        -learning_rate);
    } else {
      at::_foreach_add_(stepped, momenta, -learning_rate);
    }
  }

  void step_on_device(const std::optional<at::Tensor>& found_inf) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> stepped;
    std::vector<at::Tensor> momenta;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& grad = parameters_[i].grad();
      if (!grad.defined()) continue;
      grads.push_back(grad);
      stepped.push_back(parameters_[i]);
      if (options_.momentum == 0.0) continue;
      // The first momentum is the gradient: zero times the factor, and the gradient added.
      if (!momentum_[i].defined()) momentum_[i] = at::zeros_like(parameters_[i]);
      momenta.push_back(momentum_[i]);
    }
    if (stepped.empty()) return;
    lay_out_like(stepped, grads);
    at::_fused_sgd_(stepped, grads, momenta, options_.weight_decay, options_.momentum,
                    learning_rate_on_device(), /*dampening=*/0.0, options_.is_nesterov,
                    /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, found_inf);
  }

  std::vector<StateList> state() override { return {{"momentum", &momentum_}}; }

 protected:
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }
  std::vector<at::Tensor> buffers_on_device() const override { return momentum_; }

 private:
  // `indices` are the places of `stepped` among the parameters.
  void step_fused(const std::vector<at::Tensor>& stepped, std::vector<at::Tensor>& grads,
                  const std::vector<std::size_t>& indices, double learning_rate) {
    lay_out_like(stepped, grads);
    if (options_.momentum == 0.0) {
      fused(stepped, grads, {}, learning_rate, false);
      return;
    }
    // Parameters without a momentum yet start from the gradient, which is another form of the kernel.
    for (const bool is_first : {false, true}) {
      std::vector<at::Tensor> some;
      std::vector<at::Tensor> their_grads;
      std::vector<at::Tensor> momenta;
      for (std::size_t i = 0; i < stepped.size(); ++i) {
        if (momentum_[indices[i]].defined() == is_first) continue;
        some.push_back(stepped[i]);
        their_grads.push_back(grads[i]);
        momenta.push_back(is_first ? at::empty_like(stepped[i]) : momentum_[indices[i]]);
      }
      if (some.empty()) continue;
      fused(some, their_grads, momenta, learning_rate, is_first);
      if (!is_first) continue;
      for (std::size_t i = 0, next = 0; i < stepped.size(); ++i) {
        if (!momentum_[indices[i]].defined()) momentum_[indices[i]] = momenta[next++];
      }
    }
  }

  void fused(const std::vector<at::Tensor>& stepped, const std::vector<at::Tensor>& grads,
             const std::vector<at::Tensor>& momenta, double learning_rate, bool is_first) const {
    at::_fused_sgd_(stepped, grads, momenta, options_.weight_decay, options_.momentum,
                    learning_rate, /*dampening=*/0.0, options_.is_nesterov, /*maximize=*/false,
                    is_first);
  }

  std::vector<at::Tensor> parameters_;
  Options options_;
  std::vector<at::Tensor> momentum_;
};

class Adam final : public Optimizer {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.0;
    bool decays_parameters = false;  // AdamW: and not by way of the gradients
  };

  Adam(std::vector<at::Tensor> parameters, Options options)
      : parameters_(std::move(parameters)),
        options_(options),
        mean_(parameters_.size()),
        mean_of_squares_(parameters_.size()),
        counts_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    counts_.move_to_host();
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> stepped;
    std::vector<at::Tensor> means;
    std::vector<at::Tensor> squares;
    std::vector<double> counts;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& grad = parameters_[i].grad();
      if (!grad.defined()) continue;
      begin(i);
      grads.push_back(grad);
      stepped.push_back(parameters_[i]);
      means.push_back(mean_[i]);
      squares.push_back(mean_of_squares_[i]);
      counts.push_back(counts_.next(i));
    }
    if (stepped.empty()) return;
    if (is_fused()) {
      lay_out_like(stepped, grads);
      fused(stepped, grads, means, squares, counts_beside(stepped, counts), learning_rate,
            std::nullopt);
      return;
    }
    std::vector<at::Scalar> step_sizes;
    std::vector<at::Scalar> corrections;
    for (const double count : counts) {
      step_sizes.emplace_back(-learning_rate / (1.0 - std::pow(options_.beta1, count)));
      corrections.emplace_back(std::sqrt(1.0 - std::pow(options_.beta2, count)));
    }
    if (options_.weight_decay != 0.0) {
      if (options_.decays_parameters) {
        at::_foreach_mul_(stepped, 1.0 - learning_rate * options_.weight_decay);
      } else {
        grads = at::_foreach_add(grads, stepped, options_.weight_decay);
      }
    }
    at::_foreach_lerp_(means, grads, 1.0 - options_.beta1);
    at::_foreach_mul_(squares, options_.beta2);
    at::_foreach_addcmul_(squares, grads, grads, 1.0 - options_.beta2);
    std::vector<at::Tensor> denominators = at::_foreach_sqrt(squares);
    at::_foreach_div_(denominators, corrections);
    at::_foreach_add_(denominators, options_.epsilon);
    at::_foreach_addcdiv_(stepped, means, denominators, step_sizes);
  }

  void step_on_device(const std::optional<at::Tensor>& found_inf) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> stepped;
    std::vector<at::Tensor> means;
    std::vector<at::Tensor> squares;
    std::vector<at::Tensor> counts;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& grad = parameters_[i].grad();
      if (!grad.defined()) continue;
      begin(i);
      grads.push_back(grad);
      stepped.push_back(parameters_[i]);
      means.push_back(mean_[i]);
      squares.push_back(mean_of_squares_[i]);
      counts.push_back(counts_.on_device(i, parameters_[i]));
    }
    if (stepped.empty()) return;
    lay_out_like(stepped, grads);
    at::_foreach_add_(counts, 1.0);
    fused(stepped, grads, means, squares, counts, learning_rate_on_device(), found_inf);
    // A step that changed nothing does not count.
    if (found_inf) at::_foreach_sub_(counts, std::vector<at::Tensor>(counts.size(), *found_inf));
  }

  std::vector<StateList> state() override {
    counts_.move_to_host();
    return {{"mean", &mean_},
            {"mean_of_squares", &mean_of_squares_},
            {"steps", &counts_.all_on_host()}};
  }

 protected:
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }

  std::vector<at::Tensor> buffers_on_device() const override {
    std::vector<at::Tensor> all = mean_;
    all.insert(all.end(), mean_of_squares_.begin(), mean_of_squares_.end());
    const std::vector<at::Tensor>& counts = counts_.all_on_device();
    all.insert(all.end(), counts.begin(), counts.end());
    return all;
  }

  void move_counts_to_device() override { counts_.move_to_device(parameters_); }

 private:
  // The state of a parameter that has a gradient for the first time.
  void begin(std::size_t i) {
    if (mean_[i].defined()) return;
    mean_of_squares_[i] = at::zeros_like(parameters_[i]);
    counts_.begin(i);
    mean_[i] = at::zeros_like(parameters_[i]);
  }

  // The learning rate is a number, or a tensor on the device.
  template <class Rate>
  void fused(const std::vector<at::Tensor>& stepped, const std::vector<at::Tensor>& grads,
             const std::vector<at::Tensor>& means, const std::vector<at::Tensor>& squares,
             const std::vector<at::Tensor>& steps, const Rate& learning_rate,
             const std::optional<at::Tensor>& found_inf) const {
    const auto& [beta1, beta2, epsilon, weight_decay, decays_parameters] = options_;
    if (decays_parameters) {
      at::_fused_adamw_(stepped, grads, means, squares, {}, steps, learning_rate, beta1, beta2,
                        weight_decay, epsilon, /*amsgrad=*/false, /*maximize=*/false,
                        /*grad_scale=*/{}, found_inf);
    } else {
      at::_fused_adam_(stepped, grads, means, squares, {}, steps, learning_rate, beta1, beta2,
                       weight_decay, epsilon, /*amsgrad=*/false, /*maximize=*/false,
                       /*grad_scale=*/{}, found_inf);
    }
  }

  std::vector<at::Tensor> parameters_;
  Options options_;
  std::vector<at::Tensor> mean_;
  std::vector<at::Tensor> mean_of_squares_;
  StepCounts counts_;
};

Result<std::pair<double, double>> betas_of(const recipes::Component& spec) {
  const Json& betas = member(spec.parameters, "betas");
  if (!betas.is_array() || betas.size() != 2 || !betas[0].is_number() || !betas[1].is_number()) {
    return fail(ErrorKind::invalid, "betas: expected two numbers", "optimizer " + spec.type);
  }
  return std::pair(betas[0].get<double>(), betas[1].get<double>());
}

}  // namespace

void Optimizer::prepare_step_on_device(double learning_rate) {
  if (parameters().empty()) return;
  const at::NoGradGuard no_grad;
  if (!learning_rate_.defined()) {
    learning_rate_ =
        at::zeros({}, parameters()[0].options().dtype(at::kFloat).requires_grad(false));
  }
  learning_rate_.fill_(learning_rate);
  move_counts_to_device();
}

std::vector<at::Tensor> Optimizer::state_on_device() {
  std::vector<at::Tensor> all = buffers_on_device();
  all.push_back(learning_rate_);
  return all;
}

Result<std::unique_ptr<Optimizer>> make_optimizer(const recipes::Component& spec,
                                                  std::vector<at::Tensor> parameters) {
  const auto decay = get_number(spec.parameters, "weight_decay");
  if (!decay) return tl::unexpected(decay.error());
  if (spec.type == "sgd") {
    const auto momentum = get_number(spec.parameters, "momentum");
    const auto nesterov = get_bool(spec.parameters, "nesterov");
    if (!momentum) return tl::unexpected(momentum.error());
    if (!nesterov) return tl::unexpected(nesterov.error());
    return std::make_unique<Sgd>(
        std::move(parameters),
        Sgd::Options{.momentum = *momentum, .weight_decay = *decay, .is_nesterov = *nesterov});
  }
  if (spec.type == "adam" || spec.type == "adamw") {
    const auto epsilon = get_number(spec.parameters, "eps");
    const auto betas = betas_of(spec);
    if (!epsilon) return tl::unexpected(epsilon.error());
    if (!betas) return tl::unexpected(betas.error());
    return std::make_unique<Adam>(std::move(parameters),
                                  Adam::Options{.beta1 = betas->first,
                                                .beta2 = betas->second,
                                                .epsilon = *epsilon,
                                                .weight_decay = *decay,
                                                .decays_parameters = spec.type == "adamw"});
  }
  if (spec.type == "adagrad") {
    const auto epsilon = get_number(spec.parameters, "eps");
    const auto rate_decay = get_number(spec.parameters, "lr_decay");
    const auto initial_sum = get_number(spec.parameters, "initial_accumulator_value");
    for (const auto* value : {&epsilon, &rate_decay, &initial_sum})
      if (!*value) return tl::unexpected(value->error());
    return make_adagrad(std::move(parameters), {.rate_decay = *rate_decay,
                                                .weight_decay = *decay,
                                                .epsilon = *epsilon,
                                                .initial_sum = *initial_sum});
  }
  if (spec.type == "nadam") {
    const auto betas = betas_of(spec);
    const auto epsilon = get_number(spec.parameters, "eps");
    const auto momentum_decay = get_number(spec.parameters, "momentum_decay");
    if (!betas) return tl::unexpected(betas.error());
    for (const auto* value : {&epsilon, &momentum_decay})
      if (!*value) return tl::unexpected(value->error());
    return make_nadam(std::move(parameters), {.beta1 = betas->first,
                                              .beta2 = betas->second,
                                              .epsilon = *epsilon,
                                              .weight_decay = *decay,
                                              .momentum_decay = *momentum_decay});
  }
  if (spec.type == "rmsprop") {
    const auto alpha = get_number(spec.parameters, "alpha");
    const auto epsilon = get_number(spec.parameters, "eps");
    const auto momentum = get_number(spec.parameters, "momentum");
    const auto centered = get_bool(spec.parameters, "centered");
    for (const auto* value : {&alpha, &epsilon, &momentum})
      if (!*value) return tl::unexpected(value->error());
    if (!centered) return tl::unexpected(centered.error());
    return make_rmsprop(std::move(parameters), {.alpha = *alpha,
                                                .epsilon = *epsilon,
                                                .weight_decay = *decay,
                                                .momentum = *momentum,
                                                .is_centered = *centered});
  }
  if (spec.type == "lion") {
    const auto betas = betas_of(spec);
    if (!betas) return tl::unexpected(betas.error());
    return make_lion(std::move(parameters),
                     {.beta1 = betas->first, .beta2 = betas->second, .weight_decay = *decay});
  }
  return fail(ErrorKind::unsupported, "this trainer has no optimizer '" + spec.type + "'");
}

}  // namespace autotuned::trainer
