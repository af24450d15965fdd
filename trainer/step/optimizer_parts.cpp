// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/optimizer_parts.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace autotuned::trainer {
namespace {

at::TensorOptions count_options(const at::Tensor& parameter) {
  return parameter.options().dtype(at::kFloat).requires_grad(false);
}

}  // namespace

void lay_out_like(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& grads) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (grads[i].strides() == parameters[i].strides()) continue;
    grads[i] = at::empty_like(parameters[i]).copy_(grads[i]);
  }
}

std::vector<at::Tensor> counts_beside(const std::vector<at::Tensor>& parameters,
                                      const std::vector<double>& counts) {
  std::vector<at::Tensor> steps;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i > 0 && counts[i] == counts[i - 1]) {
      steps.push_back(steps.back());
    } else {
      steps.push_back(at::full({}, counts[i], count_options(parameters[i])));
    }
  }
  return steps;
}

Stepped stepped_of(const std::vector<at::Tensor>& parameters) {
  Stepped stepped;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& grad = parameters[i].grad();
    if (!grad.defined()) continue;
    stepped.indices.push_back(i);
    stepped.parameters.push_back(parameters[i]);
    stepped.grads.push_back(grad);
  }
  return stepped;
}

std::vector<at::Tensor> state_of(std::vector<at::Tensor>& all, const Stepped& stepped) {
  std::vector<at::Tensor> some;
  for (std::size_t i = 0; i < stepped.indices.size(); ++i) {
    at::Tensor& state = all[stepped.indices[i]];
    if (!state.defined()) state = at::zeros_like(stepped.parameters[i]);
    some.push_back(state);
  }
  return some;
}

void subtract(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& updates,
              double rate) {
  at::_foreach_add_(parameters, updates, -rate);
}

void subtract(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& updates,
              const at::Tensor& rate) {
  at::_foreach_sub_(parameters, at::_foreach_mul(updates, rate));
}

void subtract_quotients(const std::vector<at::Tensor>& parameters,
                        const std::vector<at::Tensor>& numerators,
                        const std::vector<at::Tensor>& denominators, double rate) {
  at::_foreach_addcdiv_(parameters, numerators, denominators, -rate);
}

void subtract_quotients(const std::vector<at::Tensor>& parameters,
                        const std::vector<at::Tensor>& numerators,
                        const std::vector<at::Tensor>& denominators, const at::Tensor& rate) {
  subtract(parameters, at::_foreach_div(numerators, denominators), rate);
}

void change_unless(const std::optional<at::Tensor>& found_inf,
                   const std::vector<at::Tensor>& tensors, const std::function<void()>& change) {
  if (!found_inf) {
    change();
    return;
  }
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : tensors)
    before.push_back(tensor.clone());
  change();
  const at::Tensor is_kept = found_inf->reshape({}).ne(0);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].copy_(at::where(is_kept, before[i], tensors[i]));
}

void StepCounts::begin(std::size_t i) {
  on_host_[i] = at::zeros({}, at::kLong);
}

const at::Tensor& StepCounts::on_device(std::size_t i, const at::Tensor& parameter) {
  if (!on_device_[i].defined()) on_device_[i] = at::zeros({}, count_options(parameter));
  return on_device_[i];
}

void StepCounts::move_to_device(const std::vector<at::Tensor>& parameters) {
  if (are_on_device_) return;
  for (std::size_t i = 0; i < on_host_.size(); ++i) {
    if (!on_host_[i].defined()) {
      on_device_[i].reset();
      continue;
    }
    on_device(i, parameters[i]).fill_(static_cast<double>(on_host_[i].item<std::int64_t>()));
  }
  are_on_device_ = true;
}

void StepCounts::move_to_host() {
  if (!are_on_device_) return;
  are_on_device_ = false;
  std::vector<at::Tensor> counts;
  for (const at::Tensor& count : on_device_)
    if (count.defined()) counts.push_back(count);
  if (counts.empty()) return;
  const at::Tensor together = at::stack(counts).cpu();
  const auto* next = together.const_data_ptr<float>();
  for (std::size_t i = 0; i < on_device_.size(); ++i)
    if (on_device_[i].defined()) on_host_[i].fill_(static_cast<std::int64_t>(*next++));
}

}  // namespace autotuned::trainer
