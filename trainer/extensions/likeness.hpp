// SPDX-License-Identifier: Apache-2.0
// How alike two computations of the same tensors are. Private to trainer/: includes LibTorch. Functions wait for the
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace autotuned::trainer {

using TensorList = std::vector<at::Tensor>;

// The tensors of a list as one vector, compared with those of a reference.
struct Likeness {
  double norm_ratio =
      1.0;              // over the reference's norm; 1 when both are 0, infinite when that alone is
  double cosine = 1.0;  // 1 when both are 0, 0 when one is
};

// Value for value. A tensor that is not defined counts as zeros, and NaN is equal to NaN.
[[nodiscard]] bool are_equal(const TensorList& some, const TensorList& others);
[[nodiscard]] bool are_finite(const TensorList& tensors);
[[nodiscard]] bool are_of_equal_sizes(const TensorList& some, const TensorList& others);

// In 64 bits. If there are `origins`, of their differences to these; an origin may be one row for all. REQUIRES: lists
// of the same length, with tensors of equal sizes or not defined.
[[nodiscard]] Likeness likeness_of(const TensorList& tensors, const TensorList& reference,
                                   const TensorList& origins = {});

// Of the tensors of a list as one vector, in 64 bits.
[[nodiscard]] double norm_of(const TensorList& tensors);

// Whether two computations differ by no more than other rounding does: a cosine of 0.95, a norm ratio of 0.8 to 1.25.
// If rounding the weights to 16 bits changes the reference more (`by_rounding`), the limit of the cosine is 16 times as
// far from 1 as that, but at least two thirds of it, and that of the norm ratio 1.5 times as far, but at least 0.2.
[[nodiscard]] bool is_near(const Likeness& likeness, const Likeness& by_rounding = {});

// The same with wide limits, for one of many tensors that are near together: a cosine of 0.5, unless the tensor is a
// single number (`has_direction` false), and a norm ratio of 0.2 to 5. If rounding changes the reference, the limit of
// the cosine is 16 times as far from 1 as that. True as well where rounding leaves little of the reference: a cosine
// below 0.9, or a norm ratio outside of 0.5 to 2.
[[nodiscard]] bool is_roughly_near(const Likeness& likeness, bool has_direction,
                                   const Likeness& by_rounding = {});

// The norm ratios of many comparisons. Together they show a factor that is within the limits of each one.
class NormRatios {
 public:
  static constexpr std::int64_t kLeastCount = 5;

  // REQUIRES: finite and greater than 0.
  void add(double ratio);
  void forget() { *this = NormRatios(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  // Geometric; 1 without any.
  [[nodiscard]] double mean() const;
  // Whether the mean of at least kLeastCount ratios is outside of 0.9 to 1.11, and the mean of their logarithms more than
  // four of its standard errors away from 0.
  [[nodiscard]] bool are_off() const;

 private:
  std::int64_t count_ = 0;
  double sum_ = 0.0;  // of logarithms
  double squares_ = 0.0;
};

}  // namespace autotuned::trainer
