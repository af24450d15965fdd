// SPDX-License-Identifier: Apache-2.0
// What several optimizers share. Private to their sources: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace autotuned::trainer {

// The fused kernels go over the memory of all their tensors alike, whatever the strides say: a gradient
// that is laid out otherwise than its parameter would silently be added to other elements.
void lay_out_like(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& grads);

// Counts as the fused kernels read them: tensors on the device of the parameters. Nearly always all are the
// same, so that one does for all.
[[nodiscard]] std::vector<at::Tensor> counts_beside(const std::vector<at::Tensor>& parameters,
                                                    const std::vector<double>& counts);

// The parameters that have a gradient, and their places among all.
struct Stepped {
  std::vector<std::size_t> indices;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> grads;
};
[[nodiscard]] Stepped stepped_of(const std::vector<at::Tensor>& parameters);
// Of `all`, a state with one tensor per parameter, those of `stepped`; zeros where there was none.
[[nodiscard]] std::vector<at::Tensor> state_of(std::vector<at::Tensor>& all,
                                               const Stepped& stepped);

// Takes rate * updates, or rate * numerators / denominators, from the parameters. The rate is a number, or a
// tensor of one element on their device.
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

// Lets `change` change `tensors` in place; where `found_inf` is 1 they are as before afterwards. Waits for nothing.
void change_unless(const std::optional<at::Tensor>& found_inf,
                   const std::vector<at::Tensor>& tensors, const std::function<void()>& change);

// How often each parameter was stepped. Counted on the host, or on the device once move_to_device() was
// called, until move_to_host().
class StepCounts {
 public:
  explicit StepCounts(std::size_t parameters) : on_host_(parameters), on_device_(parameters) {}

  // Parameter i has a gradient for the first time.
  void begin(std::size_t i);
  // One more on the host; how many that makes. REQUIRES: begin(i), and the counts are there.
  double next(std::size_t i) {
    return static_cast<double>(++*on_host_[i].mutable_data_ptr<std::int64_t>());
  }
  // The count of `parameter`, number i, on its device; there from now on.
  const at::Tensor& on_device(std::size_t i, const at::Tensor& parameter);

  // Into the tensors that are there, whose addresses a graph knows.
  void move_to_device(const std::vector<at::Tensor>& parameters);
  void move_to_host();

  // One number each, on the host; not defined before begin(). What a checkpoint keeps.
  [[nodiscard]] std::vector<at::Tensor>& all_on_host() { return on_host_; }
  [[nodiscard]] const std::vector<at::Tensor>& all_on_device() const { return on_device_; }

 private:
  std::vector<at::Tensor> on_host_;
  std::vector<at::Tensor> on_device_;
  bool are_on_device_ = false;  // those are newer
};

}  // namespace autotuned::trainer
