// SPDX-License-Identifier: Apache-2.0
// Counts the samples of a forward pass whose output gets a gradient. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autotuned::trainer {

// An extension may call the model for parts of the batch, without gradients first and with them in the backward pass
// (activation checkpointing). So what counts is not how it calls the model, but that gradients have come back to
// outputs for as many samples as there are. Gradients may be zeros. On a GPU, LibTorch calls hooks on a thread of its
// own, while the thread that began the backward pass waits.
class ReachedSamples {
 public:
  // The forward pass of these images begins.
  void start(const at::Tensor& given);
  // The model has returned this output for these images, in the forward or the backward pass. The output is not kept.
  void watch(const at::Tensor& images, const at::Tensor& output);
  // Gradients count from now on.
  void begin_backward();
  // "15 of 20 samples get no gradient"; empty: all have got one.
  [[nodiscard]] std::string difference() const;

 private:
  // Shared with the hook of the output, which lives as long as its graph.
  struct Part {
    std::int64_t samples = 0;
    std::atomic<bool> has_gradient = false;
  };

  std::vector<std::int64_t> sizes_;  // empty: no forward pass has begun
  std::vector<std::shared_ptr<Part>> parts_;
};

}  // namespace autotuned::trainer
