// SPDX-License-Identifier: Apache-2.0
// Keeps random numbers unaffected while a model runs beside its training. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <mutex>
#include <optional>

namespace autotuned::trainer {

// The state of LibTorch's generator of that device.
class GeneratorState {
 public:
  explicit GeneratorState(at::Device device = at::kCPU)
      : generator_(at::globalContext().defaultGenerator(device)) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  void put_back() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  [[nodiscard]] bool equals(const GeneratorState& other) const {
    return state_.equal(other.state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// The states of the host's generator and, where a model runs on another device, of that one's.
class GeneratorStates {
 public:
  explicit GeneratorStates(at::Device device) {
    if (!device.is_cpu()) device_.emplace(device);
  }
  void put_back() {
    host_.put_back();
    if (device_) device_->put_back();
  }
  // REQUIRES: of the same device.
  [[nodiscard]] bool equals(const GeneratorStates& other) const {
    return host_.equals(other.host_) && (!device_ || device_->equals(*other.device_));
  }

 private:
  GeneratorState host_;
  std::optional<GeneratorState> device_;
};

// Restores the state of LibTorch's generator of that device at the end of its life.
class GeneratorKept {
 public:
  explicit GeneratorKept(at::Device device = at::kCPU) : state_(device) {}
  ~GeneratorKept() { state_.put_back(); }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  GeneratorState state_;
};

// The same of the host's generator and, where a model runs on another device, of that one's.
class GeneratorsKept {
 public:
  explicit GeneratorsKept(at::Device device) : states_(device) {}
  ~GeneratorsKept() { states_.put_back(); }
  GeneratorsKept(const GeneratorsKept&) = delete;
  GeneratorsKept& operator=(const GeneratorsKept&) = delete;

 private:
  GeneratorStates states_;
};

}  // namespace autotuned::trainer
