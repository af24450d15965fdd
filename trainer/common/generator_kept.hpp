// SPDX-License-Identifier: Apache-2.0
// Keeps random numbers unaffected while a model runs beside its training. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <mutex>
#include <optional>

namespace autotuned::trainer {

// Restores the state of LibTorch's generator of that device at the end of its life.
class GeneratorKept {
 public:
  explicit GeneratorKept(at::Device device = at::kCPU)
      : generator_(at::globalContext().defaultGenerator(device)) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorKept() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// The same of the host's generator and, where a model runs on another device, of that one's.
class GeneratorsKept {
 public:
  explicit GeneratorsKept(at::Device device) {
    if (!device.is_cpu()) device_.emplace(device);
  }

 private:
  GeneratorKept host_;
  std::optional<GeneratorKept> device_;
};

}  // namespace autotuned::trainer
