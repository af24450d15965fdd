// SPDX-License-Identifier: Apache-2.0
// Optimizers with PyTorch's arithmetic. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

// Updates parameters in place from their gradients; a parameter without gradient is left alone. Bit
// for bit what PyTorch's Python optimizers compute on the CPU. Uses LibTorch's list operators, which
// are one kernel per list on a GPU and cost no more than a loop on the CPU. torch::optim is not used:
// it looks every state up in a hash table, and its state cannot change its memory format.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Throws c10::Error.
  virtual void step(double learning_rate) = 0;

  // What a checkpoint keeps: lists with one tensor per parameter, not defined where nothing was
  // stepped yet. The pointers live as long as this.
  struct StateList {
    const char* name;
    std::vector<at::Tensor>* tensors;
  };
  [[nodiscard]] virtual std::vector<StateList> state() = 0;
};

// ErrorKind::unsupported for an unknown type, ErrorKind::invalid for a missing parameter.
[[nodiscard]] Result<std::unique_ptr<Optimizer>> make_optimizer(const recipes::Typed& spec,
                                                                std::vector<at::Tensor> parameters);

}  // namespace autotuned::trainer
