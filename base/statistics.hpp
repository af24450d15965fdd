// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace autotuned {

// The middle one, or the mean of the two in the middle; 0 of none. REQUIRES: no NaN.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace autotuned
