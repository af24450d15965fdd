// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

namespace autotuned {

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2.0;
}

double robust_deviation(std::vector<double> values) {
  constexpr double kPerMedianDeviation = 1.4826;
  if (values.size() < 2) return 0.0;
  const double centre = median(values);
  for (double& value : values)
    value = std::abs(value - centre);
  return kPerMedianDeviation * median(std::move(values));
}

UpperHalf upper_half(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values, std::greater{});
  const double share =
      static_cast<double>((values.size() + 1) / 2) / static_cast<double>(values.size());
  values.resize((values.size() + 1) / 2);
  const double count = static_cast<double>(values.size());
  UpperHalf half;
  for (const double value : values)
    half.mean += value / count;
  if (values.size() < 2) return half;
  // The variance of the mean of the values above a quantile: that of the values, and that of their number.
  double variance = 0.0;
  for (const double value : values)
    variance += (value - half.mean) * (value - half.mean) / (count - 1.0);
  const double edge = half.mean - values.back();
  half.standard_error = std::sqrt((variance + (1.0 - share) * edge * edge) / count);
  return half;
}

}  // namespace autotuned
