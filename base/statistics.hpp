// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace autotuned {

// The middle one, or the mean of the two in the middle; 0 of none. REQUIRES: no NaN.
[[nodiscard]] double median(std::vector<double> values);

// The standard deviation that normal values of this median absolute deviation have: 1.4826 times that one. 0 of fewer
// than two. REQUIRES: no NaN.
[[nodiscard]] double robust_deviation(std::vector<double> values);

}  // namespace autotuned
