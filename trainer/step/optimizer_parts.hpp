// SPDX-License-Identifier: Apache-2.0
// What several optimizers share. Private to optimizer.cpp and adagrad.cpp: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace autotuned::trainer {

// The fused kernels go over the memory of all their tensors alike, whatever the strides say: a gradient
// that is laid out otherwise than its parameter would silently be added to other elements.
void lay_out_like(const std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& grads);

// Counts as the fused kernels read them: tensors on the device of the parameters. Nearly always all are the
// same, so that one does for all.
[[nodiscard]] std::vector<at::Tensor> counts_beside(const std::vector<at::Tensor>& parameters,
                                                    const std::vector<double>& counts);

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
