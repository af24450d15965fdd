// SPDX-License-Identifier: Apache-2.0
// Robust statistics of a few values.
#pragma once

#include <vector>

namespace autotuned {

// The median; 0 if there are no values. REQUIRES: no NaN.
[[nodiscard]] double median(std::vector<double> values);

// The median absolute deviation times 1.4826, which estimates the standard deviation of normally distributed
// values; 0 for fewer than two values. REQUIRES: no NaN.
[[nodiscard]] double robust_deviation(std::vector<double> values);

// The mean of the larger half of the values, that is, of the (n + 1) / 2 largest, with its standard error if the values are
// independent.
struct UpperHalf {
  double mean = 0.0;            // 0 if there are no values
  double standard_error = 0.0;  // 0 for fewer than two values
};
[[nodiscard]] UpperHalf upper_half(std::vector<double> values);  // REQUIRES: no NaN

}  // namespace autotuned
