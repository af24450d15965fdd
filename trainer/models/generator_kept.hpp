// SPDX-License-Identifier: Apache-2.0
// For trying a model out before it is trained. Private to trainer/models: includes LibTorch.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <mutex>

namespace autotuned::trainer {

// LibTorch's CPU generator is at the end as it was.
class GeneratorKept {
 public:
  GeneratorKept() : generator_(at::globalContext().defaultGenerator(at::kCPU)) {
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

}  // namespace autotuned::trainer
