// SPDX-License-Identifier: Apache-2.0
// Optimizers with PyTorch's arithmetic. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::trainer {

// Updates parameters in place from their gradients; a parameter without gradient is left alone. Bit
// for bit what PyTorch's Python optimizers compute on the CPU. Uses LibTorch's list operators, which
// are one kernel per list on a GPU and cost no more than a loop on the CPU. torch::optim is not used:
// it looks every state up in a hash table, and its state cannot change its memory format.
//
// Fused, one kernel reads and writes a parameter and its state once, where the list operators go over
// them several times; it rounds otherwise. The state is the same, so that it can change between steps.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Throws c10::Error.
  virtual void step(double learning_rate) = 0;

  void set_fused(bool is_fused) { is_fused_ = is_fused; }

  // A step that can be recorded and replayed (graph_step.hpp): learning rate and counts lie on the device,
  // where the fused kernels read them; so does `found_inf`, a float that is 1 for a step that must change
  // nothing. Before each, recorded or not, prepare_step_on_device() is called. Such steps and the others may
  // alternate.
  void prepare_step_on_device(double learning_rate);
  virtual void step_on_device(const std::optional<at::Tensor>& found_inf) = 0;
  // What such a step reads and writes besides parameters and gradients; not defined: not there yet.
  [[nodiscard]] std::vector<at::Tensor> state_on_device();

  // What a checkpoint keeps: lists with one tensor per parameter, not defined where nothing was
  // stepped yet. The pointers live as long as this; who writes through them calls this for it.
  struct StateList {
    const char* name;
    std::vector<at::Tensor>* tensors;
  };
  [[nodiscard]] virtual std::vector<StateList> state() = 0;

 protected:
  [[nodiscard]] bool is_fused() const { return is_fused_; }
  [[nodiscard]] const at::Tensor& learning_rate_on_device() const { return learning_rate_; }
  // Where steps on the device are counted; `parameters` as given to make_optimizer().
  virtual void move_counts_to_device() {}
  [[nodiscard]] virtual const std::vector<at::Tensor>& parameters() const = 0;
  [[nodiscard]] virtual std::vector<at::Tensor> buffers_on_device() const = 0;

 private:
  bool is_fused_ = false;
  at::Tensor learning_rate_;  // a float on the device of the parameters
};

// ErrorKind::unsupported for an unknown type, ErrorKind::invalid for a missing parameter.
[[nodiscard]] Result<std::unique_ptr<Optimizer>> make_optimizer(const recipes::Typed& spec,
                                                                std::vector<at::Tensor> parameters);

}  // namespace autotuned::trainer
