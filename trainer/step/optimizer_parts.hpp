// SPDX-License-Identifier: Apache-2.0
// Functions that several optimizers share. Private to their sources: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace autotuned::trainer {

// Gives each gradient the memory layout of its parameter. The fused kernels ignore strides: a gradient with another
// layout would silently be added to other elements.
void lay_out_like(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& grads);

// The counts for the fused kernels, as tensors on the device of the parameters. Usually all are equal and share one
// tensor.
[[nodiscard]] std::vector<at::Tensor> counts_beside(const std::vector<at::Tensor>& parameters,
                                                    const std::vector<double>& counts);

// The parameters that have a gradient, and their indices among all.
struct Stepped {
  std::vector<std::size_t> indices;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> grads;
};
[[nodiscard]] Stepped stepped_of(const std::vector<at::Tensor>& parameters);
// The tensors of `stepped` in `all`, a state with one tensor per parameter; missing ones are made as zeros.
[[nodiscard]] std::vector<at::Tensor> state_of(std::vector<at::Tensor>& all,
                                               const Stepped& stepped);

// Subtracts rate * updates, or rate * numerators / denominators, from the parameters. The rate is a number, or a tensor
// of one element on their device.
void subtract(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& updates,
              double rate);
void subtract(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& updates,
              const at::Tensor& rate);
void subtract_quotients(const std::vector<at::Tensor>& parameters,
                        const std::vector<at::Tensor>& numerators,
                        const std::vector<at::Tensor>& denominators, double rate);
void subtract_quotients(const std::vector<at::Tensor>& parameters,
                        const std::vector<at::Tensor>& numerators,
                        const std::vector<at::Tensor>& denominators, const at::Tensor& rate);

// Calls `change`, which changes `tensors` in place, and restores them if `found_inf` is 1. Does not wait for the
// device.
void change_unless(const std::optional<at::Tensor>& found_inf,
                   const std::vector<at::Tensor>& tensors, const std::function<void()>& change);

// How often each parameter was stepped. Counted on the host, or on the device once move_to_device() was
// called, until move_to_host().
class StepCounts {
 public:
  explicit StepCounts(std::size_t parameters) : on_host_(parameters), on_device_(parameters) {}

  // To be called when parameter i has its first gradient.
  void begin(std::size_t i);
  // Increments the count on the host and returns it. REQUIRES: begin(i) was called, and the counts are on the host.
  double next(std::size_t i) {
    return static_cast<double>(++*on_host_[i].mutable_data_ptr<std::int64_t>());
  }
  // The count of `parameter`, number i, on its device; makes it if needed.
  const at::Tensor& on_device(std::size_t i, const at::Tensor& parameter);

  // Copies the counts into the existing tensors, because a graph has their addresses.
  void move_to_device(const std::vector<at::Tensor>& parameters);
  void move_to_host();

  // The counts for checkpoints: one number each, on the host; undefined before begin().
  [[nodiscard]] std::vector<at::Tensor>& all_on_host() { return on_host_; }
  [[nodiscard]] const std::vector<at::Tensor>& all_on_device() const { return on_device_; }

 private:
  std::vector<at::Tensor> on_host_;
  std::vector<at::Tensor> on_device_;
  bool are_on_device_ = false;  // the counts on the device are the newer ones
};

}  // namespace autotuned::trainer
