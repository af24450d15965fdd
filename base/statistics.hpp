// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace autotuned {

// The median; 0 if there are no values. REQUIRES: no NaN.
[[nodiscard]] double median(std::vector<double> values);

// The median absolute deviation times 1.4826, which estimates the standard deviation of normally distributed
// values; 0 for fewer than two values. REQUIRES: no NaN.
[[nodiscard]] double robust_deviation(std::vector<double> values);

// The mean of the larger half of the values (of the larger (n + 1) / 2), and its standard error for independent values.
struct UpperHalf {
  double mean = 0.0;            // 0 if there are no values
  double standard_error = 0.0;  // 0 for fewer than two values
};
[[nodiscard]] UpperHalf upper_half(std::vector<double> values);  // REQUIRES: no NaN

}  // namespace autotuned
