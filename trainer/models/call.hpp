// SPDX-License-Identifier: Apache-2.0
// How models call their modules. Private to trainer/: includes LibTorch.
#pragma once

#include <torch/nn/module.h>

#include <utility>

#include "profiler/thread_log.hpp"

namespace autotuned::trainer {

// The forward of a module (a holder or a pointer), so that a recording knows what runs inside of it.
template <class Held, class... Arguments>
auto call(Held& module, Arguments&&... arguments) {
  const torch::nn::Module* const address = module.get();
  const profiler::ModuleSpan span(address);
  return module->forward(std::forward<Arguments>(arguments)...);
}

}  // namespace autotuned::trainer
