// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
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

}  // namespace autotuned
