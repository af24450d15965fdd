// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/test_values.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <vector>

namespace autotuned::trainer {
namespace {

std::vector<double> on_host(const at::Tensor& values) {
  const at::Tensor copy = values.to(at::kCPU).contiguous();
  const auto* const first = copy.const_data_ptr<double>();
  return {first, first + copy.numel()};
}

}  // namespace

void TestValues::add(const at::Tensor& outputs, const at::Tensor& targets) {
  const at::Tensor expected = targets.to(at::kDouble);
  const at::Tensor errors = outputs.to(at::kDouble) - expected;
  if (!origin_.defined()) {
    origin_ = expected.select(0, 0).clone();
    sum_ = at::zeros_like(origin_);
    sum_of_squares_ = at::zeros_like(origin_);
    absolute_errors_ = at::zeros_like(origin_);
    squared_errors_ = at::zeros_like(origin_);
  }
  const at::Tensor moved = expected - origin_;
  sum_ += moved.sum(0);
  sum_of_squares_ += (moved * moved).sum(0);
  absolute_errors_ += errors.abs().sum(0);
  squared_errors_ += (errors * errors).sum(0);
}

void TestValues::tell(TestResult& result) const {
  if (!origin_.defined()) return;
  const auto samples = static_cast<double>(result.samples);
  const std::vector<double> sums = on_host(sum_);
  const std::vector<double> squares = on_host(sum_of_squares_);
  const std::vector<double> absolute = on_host(absolute_errors_);
  const std::vector<double> squared = on_host(squared_errors_);
  NumberFigures& numbers = result.numbers.emplace();
  double r2_sum = 0.0;
  int r2_count = 0;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    NumberFigures::Value& value = numbers.values.emplace_back();
    value.mae = absolute[k] / samples;
    numbers.mae += value.mae / static_cast<double>(sums.size());
    const double spread = squares[k] - sums[k] * sums[k] / samples;
    // Targets that are equal leave at most what rounding makes of nothing.
    if (!(spread > 1e-12 * squares[k])) continue;
    value.r2 = 1.0 - squared[k] / spread;
    r2_sum += *value.r2;
    ++r2_count;
  }
  if (r2_count > 0) numbers.r2 = r2_sum / r2_count;
}

}  // namespace autotuned::trainer
