// SPDX-License-Identifier: Apache-2.0
// 16-bit arithmetic: autocast for a scope, rounding, and loss scaling for fp16. Private to trainer/.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace autotuned::trainer {

// Autocast on this thread for the life of the object; without a type none, whatever it was outside. The cache of cast
// weights is emptied at the end, so that the next forward pass casts the updated ones. A step that is recorded as a graph
// must not use that cache: a replay would read weights that were cast before it.
class AutocastGuard {
 public:
  AutocastGuard(at::DeviceType device, std::optional<at::ScalarType> type, bool has_cache = true);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  at::DeviceType device_;
  bool is_active_;
  bool was_enabled_;
  bool had_cache_ = true;
  at::ScalarType previous_type_ = at::kFloat;
};

// No autocast on this thread for the life of the object, whatever it was outside.
class AutocastPause {
 public:
  explicit AutocastPause(at::DeviceType device);
  ~AutocastPause();
  AutocastPause(const AutocastPause&) = delete;
  AutocastPause& operator=(const AutocastPause&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
};

// The tensor in 32 bits if it has 16; otherwise unchanged.
[[nodiscard]] inline at::Tensor in_32_bit(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

// The tensor with its numbers rounded to bfloat16, in the type that it has; unchanged if that is a type of integers.
[[nodiscard]] inline at::Tensor rounded_to_bfloat16(const at::Tensor& tensor) {
  return tensor.is_floating_point() ? tensor.to(at::kBFloat16).to(tensor.scalar_type()) : tensor;
}

// While it lives, call() (models/call.hpp) runs these modules in 32 bits on this thread. `modules` are sorted addresses
// and must outlive it.
class Float32Scope {
 public:
  Float32Scope(at::DeviceType device, const std::vector<const void*>& modules)
      : device_(device), modules_(modules), outer_(current_) {
    current_ = this;
  }
  ~Float32Scope() { current_ = outer_; }
  Float32Scope(const Float32Scope&) = delete;
  Float32Scope& operator=(const Float32Scope&) = delete;

  // The scope that runs this module in 32 bits; null: none.
  [[nodiscard]] static const Float32Scope* of(const void* module) {
    return current_ != nullptr && std::ranges::binary_search(current_->modules_, module) ? current_
                                                                                         : nullptr;
  }
  [[nodiscard]] at::DeviceType device() const { return device_; }

 private:
  static inline constinit thread_local const Float32Scope* current_ = nullptr;

  at::DeviceType device_;
  const std::vector<const void*>& modules_;
  const Float32Scope* outer_;
};

// PyTorch's GradScaler with its default constants. Everything stays on the device, except that unscale()
// reads one flag to decide whether the optimizer may step.
class LossScaler {
 public:
  explicit LossScaler(at::Device device);

  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale and adapts it. False: a gradient is not finite, so the
  // optimizer must skip this step.
  [[nodiscard]] bool unscale(const std::vector<at::Tensor>& gradients);
  // The same, and the answer stays on the device: 1 when a gradient is not finite, else 0.
  [[nodiscard]] at::Tensor unscale_on_device(const std::vector<at::Tensor>& gradients);

  // The state, for checkpoints: to be copied from and into.
  [[nodiscard]] at::Tensor& scale_tensor() { return scale_; }
  [[nodiscard]] at::Tensor& growth_tensor() { return growth_; }

 private:
  at::Tensor scale_;
  at::Tensor growth_;  // finite steps since the scale last changed
};

}  // namespace autotuned::trainer
