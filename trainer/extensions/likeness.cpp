// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/likeness.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace autotuned::trainer {
namespace {

constexpr double kLeastCosine = 0.95;
constexpr double kLeastNormRatio = 0.8;
constexpr double kMostNormRatio = 1.25;
// Where the job amplifies rounding, as tuner/checks.hpp has it.
constexpr double kOfRoundedDistance = 16.0;
constexpr double kOfRoundedCosine = 2.0 / 3.0;
constexpr double kOfRoundedNorm = 1.5;
constexpr double kLeastNormRatioOfAll = 0.2;
// Of one tensor of many.
constexpr double kLeastRoughCosine = 0.5;
constexpr double kLeastRoughNormRatio = 0.2;
constexpr double kMostRoughNormRatio = 5.0;
constexpr double kLeastKeptCosine = 0.9;
constexpr double kLeastKeptNormRatio = 0.5;
constexpr double kMostKeptNormRatio = 2.0;
// Of many steps together. A forward in bfloat16 near a loss of 0 makes gradients of 0.945 times the length, step by step.
constexpr double kMostSteadyNormRatio = 1.0 / 0.9;
constexpr double kStandardErrors = 4.0;
// Numbers that are copied in 64 bits at once: answers may be as large as half of the memory.
constexpr std::int64_t kNumbersAtOnce = std::int64_t{1} << 24;

// A gradient may be sparse.
at::Tensor dense(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.detach() : tensor.detach().to_dense();
}

// There is no arithmetic in 8 bits.
at::Tensor comparable(const at::Tensor& tensor) {
  const at::Tensor values = dense(tensor);
  const bool is_of_8_bits = values.is_floating_point() && values.itemsize() == 1;
  return is_of_8_bits ? values.to(at::kFloat) : values;
}

bool has_equal_values(const at::Tensor& one, const at::Tensor& other) {
  if (!one.defined() && !other.defined()) return true;
  if (!one.defined() || !other.defined()) {
    return !comparable(one.defined() ? one : other).any().item<bool>();
  }
  const at::Tensor first = comparable(one);
  const at::Tensor second = comparable(other);
  if (first.sizes() != second.sizes() || first.scalar_type() != second.scalar_type()) return false;
  if (first.equal(second)) return true;
  return first.is_floating_point() && first.allclose(second, 0.0, 0.0, /*equal_nan=*/true);
}

// Sums over numbers of two vectors.
class Products {
 public:
  void add(const at::Tensor& tensor, const at::Tensor& reference) {
    add_to(squares_, tensor * tensor);
    add_to(reference_squares_, reference * reference);
    add_to(products_, tensor * reference);
  }
  [[nodiscard]] double norm() const { return std::sqrt(value_of(squares_)); }
  [[nodiscard]] Likeness likeness() const {
    const double norm = this->norm();
    const double reference_norm = std::sqrt(value_of(reference_squares_));
    if (norm == 0.0 && reference_norm == 0.0) return {};
    if (reference_norm == 0.0) return {std::numeric_limits<double>::infinity(), 0.0};
    if (norm == 0.0) return {0.0, 0.0};
    return {norm / reference_norm, value_of(products_) / (norm * reference_norm)};
  }

 private:
  static void add_to(at::Tensor& sum, const at::Tensor& numbers) {
    sum = sum.defined() ? sum + numbers.sum() : numbers.sum();
  }
  static double value_of(const at::Tensor& sum) { return sum.defined() ? sum.item<double>() : 0.0; }

  at::Tensor squares_;
  at::Tensor reference_squares_;
  at::Tensor products_;
};

// With at least one dimension.
at::Tensor rows_of(const at::Tensor& tensor) {
  const at::Tensor values = dense(tensor);
  return values.dim() == 0 ? values.reshape({1}) : values;
}

at::Tensor rows_of(const at::Tensor& tensor, const at::Tensor& other) {
  return rows_of(tensor.defined() ? tensor : at::zeros_like(other));
}

void add_products(const at::Tensor& tensor, const at::Tensor& reference, const at::Tensor& origin,
                  Products& products) {
  const std::int64_t rows = tensor.size(0);
  if (tensor.numel() == 0) return;
  const std::int64_t at_once = std::max<std::int64_t>(kNumbersAtOnce / (tensor.numel() / rows), 1);
  for (std::int64_t row = 0; row < rows; row += at_once) {
    const std::int64_t count = std::min(at_once, rows - row);
    at::Tensor some = tensor.narrow(0, row, count).to(at::kDouble);
    at::Tensor others = reference.narrow(0, row, count).to(at::kDouble);
    if (origin.defined()) {
      const bool is_whole = origin.size(0) == rows;
      const at::Tensor from = (is_whole ? origin.narrow(0, row, count) : origin).to(at::kDouble);
      some = some - from;
      others = others - from;
    }
    products.add(some, others);
  }
}

}  // namespace

bool are_equal(const TensorList& some, const TensorList& others) {
  const at::NoGradGuard no_grad;
  return std::ranges::equal(some, others, has_equal_values);
}

bool are_finite(const TensorList& tensors) {
  const at::NoGradGuard no_grad;
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    return !tensor.defined() || comparable(tensor).isfinite().all().item<bool>();
  });
}

bool are_of_equal_sizes(const TensorList& some, const TensorList& others) {
  return std::ranges::equal(some, others, [](const at::Tensor& one, const at::Tensor& other) {
    return !one.defined() || !other.defined() || one.sizes() == other.sizes();
  });
}

Likeness likeness_of(const TensorList& tensors, const TensorList& reference,
                     const TensorList& origins) {
  const at::NoGradGuard no_grad;
  Products products;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() && !reference[i].defined()) continue;
    add_products(rows_of(tensors[i], reference[i]), rows_of(reference[i], tensors[i]),
                 i < origins.size() ? rows_of(origins[i]) : at::Tensor(), products);
  }
  return products.likeness();
}

double norm_of(const TensorList& tensors) {
  const at::NoGradGuard no_grad;
  Products products;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const at::Tensor rows = rows_of(tensor);
    add_products(rows, rows, at::Tensor(), products);
  }
  return products.norm();
}

bool is_near(const Likeness& likeness, const Likeness& by_rounding) {
  double least_cosine = kLeastCosine;
  double least_ratio = kLeastNormRatio;
  double most_ratio = kMostNormRatio;
  if (std::isfinite(by_rounding.norm_ratio) && std::isfinite(by_rounding.cosine)) {
    const double turn = kOfRoundedDistance * (1.0 - by_rounding.cosine);
    least_cosine =
        std::min(least_cosine, std::max(1.0 - turn, kOfRoundedCosine * by_rounding.cosine));
    const double stretch = kOfRoundedNorm * std::abs(1.0 - by_rounding.norm_ratio);
    least_ratio = std::min(least_ratio, std::max(1.0 - stretch, kLeastNormRatioOfAll));
    most_ratio = std::max(most_ratio, 1.0 + stretch);
  }
  return likeness.cosine >= least_cosine && likeness.norm_ratio >= least_ratio &&
         likeness.norm_ratio <= most_ratio;
}

bool is_roughly_near(const Likeness& likeness, bool has_direction, const Likeness& by_rounding) {
  const bool is_kept_by_rounding = by_rounding.cosine >= kLeastKeptCosine &&
                                   by_rounding.norm_ratio >= kLeastKeptNormRatio &&
                                   by_rounding.norm_ratio <= kMostKeptNormRatio;
  if (!is_kept_by_rounding) return true;
  const double turn = kOfRoundedDistance * (1.0 - by_rounding.cosine);
  const double least_cosine = std::min(kLeastRoughCosine, 1.0 - turn);
  const bool is_as_long =
      likeness.norm_ratio >= kLeastRoughNormRatio && likeness.norm_ratio <= kMostRoughNormRatio;
  return is_as_long && (!has_direction || likeness.cosine >= least_cosine);
}

void NormRatios::add(double ratio) {
  const double logarithm = std::log(ratio);
  ++count_;
  sum_ += logarithm;
  squares_ += logarithm * logarithm;
}

double NormRatios::mean() const {
  return count_ > 0 ? std::exp(sum_ / static_cast<double>(count_)) : 1.0;
}

bool NormRatios::are_off() const {
  if (count_ < kLeastCount) return false;
  const auto count = static_cast<double>(count_);
  const double mean = sum_ / count;
  const double variance = std::max(squares_ - count * mean * mean, 0.0) / (count - 1.0);
  const double standard_error = std::sqrt(variance / count);
  return std::abs(mean) > std::log(kMostSteadyNormRatio) &&
         std::abs(mean) > kStandardErrors * standard_error;
}

}  // namespace autotuned::trainer
