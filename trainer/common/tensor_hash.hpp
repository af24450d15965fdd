// SPDX-License-Identifier: Apache-2.0
// Hashes of tensors. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace autotuned::trainer {

inline constexpr std::uint64_t kOddBits = 0x9e3779b97f4a7c15U;

// The finalizer of SplitMix64.
[[nodiscard]] constexpr std::uint64_t mixed_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

// A hash of the values in order, independent of the memory format; -0 counts as +0, except in 8 bits. It is not
// cryptographic. Waits for the device.
[[nodiscard]] std::uint64_t hash_of(const at::Tensor& tensor);

}  // namespace autotuned::trainer
