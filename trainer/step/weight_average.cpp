// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/weight_average.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>

#include <utility>

namespace autotuned::trainer {

WeightAverage::WeightAverage(double decay, std::vector<at::Tensor> parameters)
    : decay_(decay), parameters_(std::move(parameters)), averages_(parameters_.size()) {}

void WeightAverage::update() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!averages_[i].defined()) {
      averages_[i] = parameters_[i].detach().clone();
      continue;
    }
    averages.push_back(averages_[i]);
    values.push_back(parameters_[i].detach());
  }
  if (!averages.empty()) at::_foreach_lerp_(averages, values, 1.0 - decay_);
}

void WeightAverage::keep_copies(bool keeps) {
  keeps_copies_ = keeps;
  copies_.clear();
  if (keeps) copies_.resize(averages_.size());
}

at::Tensor WeightAverage::copy_of(std::size_t i) {
  if (!keeps_copies_) return averages_[i].clone();
  if (!copies_[i].defined()) copies_[i] = averages_[i].clone();
  return copies_[i];
}

WeightAverage::Scope::Scope(WeightAverage* average, bool copies) : average_(average) {
  if (average_ == nullptr) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < average_->parameters_.size(); ++i) {
    at::Tensor& parameter = average_->parameters_[i];
    own_.push_back(parameter.detach());
    const at::Tensor& value = average_->averages_[i];
    if (value.defined()) parameter.set_data(copies ? average_->copy_of(i) : value);
  }
}

WeightAverage::Scope::~Scope() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own_.size(); ++i)
    average_->parameters_[i].set_data(own_[i]);
}

}  // namespace autotuned::trainer
