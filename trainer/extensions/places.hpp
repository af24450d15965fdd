// SPDX-License-Identifier: Apache-2.0
// Single numbers of a tensor, by their place in the order of its values. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace autotuned::trainer {

// Whether numbers can be read without a wait for a device.
[[nodiscard]] inline bool can_be_read(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         tensor.numel() > 0;
}

// In numbers, from the tensor's first one.
[[nodiscard]] inline std::int64_t offset_of(const at::Tensor& tensor, std::int64_t place) {
  if (tensor.is_contiguous()) return place;
  std::int64_t offset = 0;
  for (std::int64_t i = tensor.dim() - 1; i >= 0; --i) {
    offset += place % tensor.size(i) * tensor.stride(i);
    place /= tensor.size(i);
  }
  return offset;
}

}  // namespace autotuned::trainer
