// SPDX-License-Identifier: Apache-2.0
// How models call their modules. Private to trainer/: includes LibTorch.
#pragma once

#include <torch/nn/module.h>

#include <type_traits>
#include <utility>

#include "profiler/recorder/thread_log.hpp"
#include "trainer/common/precision.hpp"

namespace autotuned::trainer {

template <class Argument>
decltype(auto) argument_in_32_bit(Argument&& argument) {
  if constexpr (std::is_same_v<std::remove_cvref_t<Argument>, at::Tensor>) {
    return in_32_bit(argument);
  } else {
    return std::forward<Argument>(argument);
  }
}

// Calls the forward of a module (a holder or a pointer) in a span of its own, so that a recording knows what runs in
// it, and in 32 bits if precision.keep_float32 names it.
template <class Held, class... Arguments>
auto call(Held& module, Arguments&&... arguments) {
  const torch::nn::Module* const address = module.get();
  const profiler::ModuleSpan span(address);
  const Float32Scope* const scope = Float32Scope::of(address);
  if (scope == nullptr) return module->forward(std::forward<Arguments>(arguments)...);
  const AutocastPause pause(scope->device());
  return module->forward(argument_in_32_bit(std::forward<Arguments>(arguments))...);
}

}  // namespace autotuned::trainer
