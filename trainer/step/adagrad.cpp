// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/adagrad.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/full_like.h>

#include <utility>

#include "trainer/step/optimizer_parts.hpp"

namespace autotuned::trainer {
namespace {

class Adagrad final : public Optimizer {
 public:
  Adagrad(std::vector<at::Tensor> parameters, AdagradOptions options)
      : parameters_(std::move(parameters)),
        options_(options),
        sums_(parameters_.size()),
        counts_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    counts_.move_to_host();
    Lists lists = lists_of_gradients();
    if (lists.stepped.empty()) return;
    std::vector<double> counts;
    for (const std::size_t i : lists.indices)
      counts.push_back(counts_.next(i));
    if (is_fused()) {
      fused(lists, counts_beside(lists.stepped, counts), learning_rate, std::nullopt);
      return;
    }
    std::vector<at::Scalar> step_sizes;
    for (const double count : counts) {
      step_sizes.emplace_back(-(learning_rate / (1.0 + (count - 1.0) * options_.rate_decay)));
    }
    if (options_.weight_decay != 0.0) {
      lists.grads = at::_foreach_add(lists.grads, lists.stepped, options_.weight_decay);
    }
    at::_foreach_addcmul_(lists.sums, lists.grads, lists.grads, 1.0);
    std::vector<at::Tensor> denominators = at::_foreach_sqrt(lists.sums);
    at::_foreach_add_(denominators, options_.epsilon);
    at::_foreach_addcdiv_(lists.stepped, lists.grads, denominators, step_sizes);
  }

  void step_on_device(const std::optional<at::Tensor>& found_inf) override {
    const at::NoGradGuard no_grad;
    Lists lists = lists_of_gradients();
    if (lists.stepped.empty()) return;
    std::vector<at::Tensor> counts;
    for (const std::size_t i : lists.indices)
      counts.push_back(counts_.on_device(i, parameters_[i]));
    at::_foreach_add_(counts, 1.0);
    fused(lists, counts, learning_rate_on_device(), found_inf);
    // A step that changed nothing does not count.
    if (found_inf) at::_foreach_sub_(counts, std::vector<at::Tensor>(counts.size(), *found_inf));
  }

  std::vector<StateList> state() override {
    counts_.move_to_host();
    return {{"sum_of_squares", &sums_}, {"steps", &counts_.all_on_host()}};
  }

 protected:
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }

  std::vector<at::Tensor> buffers_on_device() const override {
    std::vector<at::Tensor> all = sums_;
    const std::vector<at::Tensor>& counts = counts_.all_on_device();
    all.insert(all.end(), counts.begin(), counts.end());
    return all;
  }

  void move_counts_to_device() override { counts_.move_to_device(parameters_); }

 private:
  // The tensors of the parameters that have a gradient.
  struct Lists {
    std::vector<std::size_t> indices;  // their places among all
    std::vector<at::Tensor> stepped;
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> sums;
  };

  Lists lists_of_gradients() {
    Lists lists;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& grad = parameters_[i].grad();
      if (!grad.defined()) continue;
      if (!sums_[i].defined()) {
        sums_[i] = at::full_like(parameters_[i], options_.initial_sum);
        counts_.begin(i);
      }
      lists.indices.push_back(i);
      lists.stepped.push_back(parameters_[i]);
      lists.grads.push_back(grad);
      lists.sums.push_back(sums_[i]);
    }
    return lists;
  }

  // The learning rate is a number, or a tensor on the device.
  template <class Rate>
  void fused(Lists& lists, const std::vector<at::Tensor>& counts, const Rate& learning_rate,
             const std::optional<at::Tensor>& found_inf) const {
    lay_out_like(lists.stepped, lists.grads);
    at::_fused_adagrad_(lists.stepped, lists.grads, lists.sums, counts, learning_rate,
                        options_.rate_decay, options_.weight_decay, options_.epsilon,
                        /*maximize=*/false, /*grad_scale=*/{}, found_inf);
  }

  std::vector<at::Tensor> parameters_;
  AdagradOptions options_;
  std::vector<at::Tensor> sums_;  // of the gradients' squares
  StepCounts counts_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(std::vector<at::Tensor> parameters,
                                        AdagradOptions options) {
  return std::make_unique<Adagrad>(std::move(parameters), options);
}

}  // namespace autotuned::trainer
