// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/device_pass.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

namespace autotuned::trainer {
namespace {

// A tensor with one number for each channel, for (samples, channels, rows, columns).
at::Tensor of_channels(const std::vector<float>& values, at::Device device) {
  if (values.empty()) return {};
  return at::tensor(values, at::kFloat)
      .view({1, static_cast<std::int64_t>(values.size()), 1, 1})
      .to(device);
}

}  // namespace

void convert_on_host(const input::PixelTable& table, const at::Tensor& bytes,
                     const at::Tensor& numbers) {
  const std::int64_t samples = bytes.size(0);
  const std::int64_t elements = bytes.numel() / samples;
  const std::uint8_t* const from = bytes.const_data_ptr<std::uint8_t>();
  float* const to = numbers.mutable_data_ptr<float>();
  constexpr std::int64_t kBytesPerTask = 65536;  // below, waking a thread costs more than it saves
  const std::int64_t grain = std::max<std::int64_t>(1, kBytesPerTask / elements);
  at::parallel_for(0, samples, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto count = static_cast<std::size_t>(elements);
      const std::size_t offset = static_cast<std::size_t>(i) * count;
      input::convert_sample(table, {from + offset, count}, to + offset);
    }
  });
}

DevicePass::DevicePass(std::span<const input::PixelFormula> formulas, at::Device device) {
  for (const input::PixelFormula& formula : formulas) {
    Step step{formula.kind, {}, {}, {}, formula.factor};
    step.offsets = of_channels(formula.offsets, device);
    step.divisors = of_channels(formula.divisors, device);
    const auto channels = static_cast<std::size_t>(formula.channels);
    for (std::size_t from = 0; !formula.weights.empty() && from < channels; ++from) {
      std::vector<float> column;
      for (std::size_t to = 0; to < channels; ++to)
        column.push_back(formula.weights[to * channels + from]);
      step.columns.push_back(of_channels(column, device));
    }
    steps_.push_back(std::move(step));
  }
}

at::Tensor DevicePass::run(const at::Tensor& bytes) const {
  assert(!is_empty());
  at::Tensor numbers = bytes.to(at::kFloat);
  for (const Step& step : steps_)
    numbers = apply(step, std::move(numbers));
  return numbers;
}

// Products and sums are calls of their own, so that no multiplication is fused with an addition.
at::Tensor DevicePass::apply(const Step& step, at::Tensor numbers) {
  using Kind = input::PixelFormula::Kind;
  switch (step.kind) {
    case Kind::matrix: {
      at::Tensor sum;
      for (std::size_t from = 0; from < step.columns.size(); ++from) {
        const at::Tensor product =
            numbers.narrow(1, static_cast<std::int64_t>(from), 1).mul(step.columns[from]);
        sum = sum.defined() ? sum.add_(product) : product;
      }
      return sum.add_(step.offsets);
    }
    case Kind::divide:
      return numbers.div_(step.divisors);
    case Kind::standardise:
      return numbers.sub_(step.offsets).div_(step.divisors);
    case Kind::multiply:
      break;
  }
  return numbers.to(at::kDouble).mul_(step.factor).to(at::kFloat);
}

}  // namespace autotuned::trainer
