// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/tensor_hash.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace autotuned::trainer {

std::uint64_t hash_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
  // There is no addition of numbers of 8 bits.
  if (values.is_floating_point() && values.itemsize() > 1) values = values + 0.0;
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  std::size_t left = values.nbytes();
  // Four chains, so that one multiplication need not wait for another.
  std::array<std::uint64_t, 4> lanes = {1, 2, 3, left + 4};
  std::array<std::uint64_t, 4> words{};
  while (left > 0) {
    const std::size_t count = std::min(left, sizeof(words));
    words.fill(0);
    std::memcpy(words.data(), bytes, count);
    for (std::size_t i = 0; i < lanes.size(); ++i)
      lanes[i] = std::rotl((lanes[i] ^ words[i]) * kOddBits, 29);
    bytes += count;
    left -= count;
  }
  std::uint64_t hash = 0;
  for (const std::uint64_t lane : lanes)
    hash = mixed_bits(hash * kOddBits + lane);
  return hash;
}

}  // namespace autotuned::trainer
