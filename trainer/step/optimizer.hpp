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

// Updates parameters in place from their gradients; a parameter without gradient is not changed. Computes bit for bit
// the same as PyTorch's Python optimizers on the CPU. Uses LibTorch's list operators, which are one kernel per list on
// a GPU and cost no more than a loop on the CPU. torch::optim is not used: it looks every state up in a hash table, and
// its state cannot change its memory format.
//
// With set_fused(true), one kernel reads and writes a parameter and its state once, where the list operators do so
// several times; it rounds differently. The state is the same, so that this can change between steps.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Throws c10::Error.
  virtual void step(double learning_rate) = 0;

  void set_fused(bool is_fused) { is_fused_ = is_fused; }

  // Steps that can be recorded and replayed (graph_step.hpp): learning rate and counts are on the device, where the
  // fused kernels read them; so is `found_inf`, a float that is 1 for a step that must change nothing. Call
  // prepare_step_on_device() before each, recorded or not. Such steps may alternate with step().
  void prepare_step_on_device(double learning_rate);
  virtual void step_on_device(const std::optional<at::Tensor>& found_inf) = 0;
  // The tensors that such a step reads and writes besides parameters and gradients; undefined ones do not exist yet.
  [[nodiscard]] std::vector<at::Tensor> state_on_device();

  // The state for checkpoints: lists with one tensor per parameter, undefined for a parameter that had no step yet. The
  // pointers are valid as long as the optimizer. To write through them, call state() for that purpose.
  struct StateList {
    const char* name;
    std::vector<at::Tensor>* tensors;
  };
  [[nodiscard]] virtual std::vector<StateList> state() = 0;

 protected:
  [[nodiscard]] bool is_fused() const { return is_fused_; }
  [[nodiscard]] const at::Tensor& learning_rate_on_device() const { return learning_rate_; }
  // Moves the step counts to the device, if the optimizer has counts.
  virtual void move_counts_to_device() {}
  [[nodiscard]] virtual const std::vector<at::Tensor>& parameters() const = 0;
  [[nodiscard]] virtual std::vector<at::Tensor> buffers_on_device() const = 0;

 private:
  bool is_fused_ = false;
  at::Tensor learning_rate_;  // a float on the device of the parameters
};

// ErrorKind::unsupported for an unknown type, ErrorKind::invalid for a missing parameter.
[[nodiscard]] Result<std::unique_ptr<Optimizer>> make_optimizer(const recipes::Component& spec,
                                                                std::vector<at::Tensor> parameters);

}  // namespace autotuned::trainer
