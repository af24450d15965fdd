// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/step_input.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <array>
#include <bit>
#include <cstring>

namespace autotuned::trainer {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;

// The finalizer of SplitMix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

std::uint64_t hash_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
  if (values.is_floating_point()) values = values + 0.0;
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
      lanes[i] = std::rotl((lanes[i] ^ words[i]) * kOdd, 29);
    bytes += count;
    left -= count;
  }
  std::uint64_t hash = 0;
  for (const std::uint64_t lane : lanes)
    hash = mixed(hash * kOdd + lane);
  return hash;
}

std::vector<double> Projections::of(const at::Tensor& batch) {
  const at::NoGradGuard no_grad;
  if (batch.size(0) == 0) return {};
  const at::Tensor samples =
      batch.detach().contiguous().reshape({batch.size(0), -1}).to(at::kFloat);
  const std::int64_t elements = samples.size(1);
  if (!signs_.defined() || signs_.numel() != elements) {
    signs_ = at::empty({elements}, at::kFloat);
    auto* const sign = signs_.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < elements; ++i)
      sign[i] = (mixed(static_cast<std::uint64_t>(i) * kOdd) & 1U) != 0 ? 1.0F : -1.0F;
  }
  if (signs_.device() != samples.device()) signs_ = signs_.to(samples.device());
  const at::Tensor sums = (samples * signs_).sum(1).to(at::kCPU, at::kDouble).contiguous();
  const auto* const sum = sums.const_data_ptr<double>();
  return {sum, sum + sums.numel()};
}

}  // namespace autotuned::trainer
