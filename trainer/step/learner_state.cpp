// SPDX-License-Identifier: Apache-2.0
// The state of a learner: what checkpoints copy, and its layout in memory.
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

// The same values, laid out as asked. The strides are spelled out: a tensor with one channel counts as
// contiguous in both formats, and LibTorch then goes by its strides.
at::Tensor in_format(const at::Tensor& tensor, bool is_channels_last) {
  if (tensor.dim() != 4) return tensor;
  const auto plain = c10::contiguous_strides(tensor.sizes());
  const std::vector<std::int64_t> strides =
      is_channels_last ? c10::get_channels_last_strides_2d(tensor.sizes())
                       : std::vector<std::int64_t>(plain.begin(), plain.end());
  if (tensor.strides() == at::IntArrayRef(strides)) return tensor;
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

at::Tensor generator_state(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

// Makes copies that lie on the host.
class HostCopies {
 public:
  HostCopies(at::Device device, HostMemory memory)
      : device_(device), is_pinned_(memory == HostMemory::page_locked && !device.is_cpu()) {}

  at::Tensor copy(const at::Tensor& tensor) {
    const at::Tensor values = tensor.detach();
    if (values.is_cpu()) return values.clone();
    const at::Tensor pinned = is_pinned_ ? pinned_like(values) : at::Tensor();
    if (!pinned.defined()) return values.to(at::kCPU);
    is_copying_ = true;
    return pinned.copy_(values, /*non_blocking=*/true);
  }

  // All copies are whole on return.
  void finish() const {
    if (is_copying_) at::accelerator::synchronizeDevice(device_.index());
  }

 private:
  // Page-locked memory, or an undefined tensor if the system page-locks no more: then the copy goes on without.
  at::Tensor pinned_like(const at::Tensor& tensor) {
    try {
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               at::dtype(tensor.scalar_type()).pinned_memory(true));
    } catch (const c10::Error&) {
      is_pinned_ = false;
      return {};
    }
  }

  at::Device device_;
  bool is_pinned_;
  bool is_copying_ = false;
};

std::string state_name(const char* list, const std::string& parameter) {
  return std::string(list) + "/" + parameter;
}

using TensorsByName = std::map<std::string, at::Tensor, std::less<>>;

TensorsByName by_name(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

// Whether `saved` has these tensors, alike in shape and type.
bool holds(const TensorsByName& saved, const std::string& name, const at::Tensor& live) {
  const auto found = saved.find(name);
  return found != saved.end() && found->second.sizes() == live.sizes() &&
         found->second.scalar_type() == live.scalar_type();
}

// Restores `tensor`, a state of `parameter`, from a checkpoint; `saved` is null if the checkpoint has none.
void put_back(const at::Tensor* saved, const at::Tensor& parameter, bool is_count,
              at::Tensor& tensor) {
  if (saved == nullptr) {
    tensor.reset();
  } else if (tensor.defined()) {
    tensor.copy_(*saved);
  } else if (is_count) {
    tensor = saved->clone();  // kept on the host
  } else {
    tensor = at::empty_like(parameter).copy_(*saved);
  }
}

}  // namespace

Checkpoint Learner::capture(HostMemory memory) {
  const at::NoGradGuard no_grad;
  Checkpoint checkpoint;
  HostCopies host(device_, memory);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    checkpoint.parameters.emplace_back(names_[i], host.copy(parameters_[i]));
  }
  for (const auto& [name, buffer] : buffers_) {
    checkpoint.buffers.emplace_back(name, host.copy(buffer));
  }
  for (const ParameterGroup& group : groups_) {
    for (const Optimizer::StateList& list : group.optimizer->state()) {
      for (std::size_t i = 0; i < list.tensors->size(); ++i) {
        const at::Tensor& tensor = (*list.tensors)[i];
        if (!tensor.defined()) continue;
        checkpoint.optimizer.emplace_back(state_name(list.name, names_[group.places[i]]),
                                          host.copy(tensor));
      }
    }
  }
  if (average_ != nullptr) {
    const std::vector<at::Tensor>& averages = average_->tensors();
    for (std::size_t i = 0; i < averages.size(); ++i)
      if (averages[i].defined()) {
        checkpoint.averages.emplace_back(names_[i], host.copy(averages[i]));
      }
  }
  checkpoint.others.emplace_back("scaler/scale", host.copy(scaler_.scale_tensor()));
  checkpoint.others.emplace_back("scaler/growth", host.copy(scaler_.growth_tensor()));
  host.finish();
  checkpoint.others.emplace_back("generator/cpu", generator_state(at::kCPU));
  if (!device_.is_cpu()) {
    checkpoint.others.emplace_back("generator/device", generator_state(device_));
  }
  return checkpoint;
}

NamedTensors Learner::capture_parameters() const {
  const at::NoGradGuard no_grad;
  NamedTensors captured;
  HostCopies host(device_, HostMemory::pageable);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    captured.emplace_back(names_[i], host.copy(parameters_[i]));
  return captured;
}

void Learner::add_tied_names(Checkpoint& checkpoint) const {
  for (const TiedName& tied : model_->tied_names()) {
    for (NamedTensors* const list : {&checkpoint.parameters, &checkpoint.averages}) {
      const auto found = std::ranges::find(*list, tied.of, &NamedTensors::value_type::first);
      if (found == list->end()) continue;
      const at::Tensor tensor = found->second;
      list->emplace_back(tied.name, tensor);
    }
  }
}

Result<void> Learner::restore(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  const TensorsByName parameters = by_name(checkpoint.parameters);
  const TensorsByName buffers = by_name(checkpoint.buffers);
  const TensorsByName optimizer = by_name(checkpoint.optimizer);
  const TensorsByName averages = by_name(checkpoint.averages);
  const TensorsByName others = by_name(checkpoint.others);
  bool fits = parameters.size() == parameters_.size() && buffers.size() == buffers_.size();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    fits = fits && holds(parameters, names_[i], parameters_[i]) &&
           (!averages.contains(names_[i]) || holds(averages, names_[i], parameters_[i]));
  }
  for (const auto& [name, buffer] : buffers_)
    fits = fits && holds(buffers, name, buffer);
  fits = fits && holds(others, "scaler/scale", scaler_.scale_tensor()) &&
         holds(others, "scaler/growth", scaler_.growth_tensor()) &&
         others.contains("generator/cpu");
  if (!fits) return fail(ErrorKind::invalid, "the checkpoint is of another model");

  drop_gradients();
  ++times_set_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].copy_(parameters.at(names_[i]));
  }
  for (auto& [name, buffer] : buffers_)
    buffer.copy_(buffers.at(name));
  for (const ParameterGroup& group : groups_) {
    for (const Optimizer::StateList& list : group.optimizer->state()) {
      for (std::size_t i = 0; i < list.tensors->size(); ++i) {
        const std::size_t place = group.places[i];
        const auto found = optimizer.find(state_name(list.name, names_[place]));
        const bool is_count = found != optimizer.end() && found->second.dim() == 0 &&
                              std::string_view(list.name) == "steps";
        put_back(found == optimizer.end() ? nullptr : &found->second, parameters_[place], is_count,
                 (*list.tensors)[i]);
      }
    }
  }
  for (std::size_t i = 0; average_ != nullptr && i < parameters_.size(); ++i) {
    const auto found = averages.find(names_[i]);
    put_back(found == averages.end() ? nullptr : &found->second, parameters_[i], false,
             average_->tensors()[i]);
  }
  scaler_.scale_tensor().copy_(others.at("scaler/scale"));
  scaler_.growth_tensor().copy_(others.at("scaler/growth"));
  set_generator_state(at::kCPU, others.at("generator/cpu"));
  if (const auto found = others.find("generator/device"); found != others.end()) {
    if (!device_.is_cpu()) set_generator_state(device_, found->second);
  }
  return {};
}

std::optional<double> Learner::loss_scale() {
  if (settings_.autocast != at::kHalf) return std::nullopt;
  return static_cast<double>(scaler_.scale_tensor().item<float>());
}

void Learner::set_loss_scale(double scale) {
  const at::NoGradGuard no_grad;
  scaler_.scale_tensor().fill_(scale);
}

std::vector<const void*> Learner::memory() {
  std::vector<const void*> all;
  const auto add = [&all](const at::Tensor& tensor) {
    all.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
  };
  for (const at::Tensor& parameter : parameters_)
    add(parameter);
  for (const auto& [name, buffer] : buffers_)
    add(buffer);
  for (const ParameterGroup& group : groups_) {
    for (const at::Tensor& tensor : group.optimizer->state_on_device())
      add(tensor);
  }
  add(scaler_.scale_tensor());
  add(scaler_.growth_tensor());
  return all;
}

void Learner::set_memory_format(bool is_channels_last) {
  const at::NoGradGuard no_grad;
  drop_gradients();
  for (at::Tensor& parameter : parameters_) {
    parameter.set_data(in_format(parameter.detach(), is_channels_last));
  }
  const auto lay_out = [is_channels_last](std::vector<at::Tensor>& tensors) {
    for (at::Tensor& tensor : tensors)
      if (tensor.defined()) tensor = in_format(tensor, is_channels_last);
  };
  for (const ParameterGroup& group : groups_) {
    for (const Optimizer::StateList& list : group.optimizer->state())
      lay_out(*list.tensors);
  }
  if (average_ != nullptr) lay_out(average_->tensors());
}

}  // namespace autotuned::trainer
