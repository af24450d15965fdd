// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a pixel-wise stage as a value, for threads and devices.
#pragma once

#include <vector>

namespace autotuned::input {

// The operation on the number x of channel c. Every operation rounds by itself, in this order; fused operations may
// give other bits.
struct PixelFormula {
  enum class Kind {
    matrix,       // ((weights[c][0] * x[0] + weights[c][1] * x[1]) + ...) + offsets[c]
    divide,       // x / divisors[c]
    standardise,  // (x - offsets[c]) / divisors[c]
    multiply,     // float(double(x) * factor)
  };
  Kind kind = Kind::multiply;
  int channels = 1;
  std::vector<float> weights = {};  // row after row
  std::vector<float> offsets = {};
  std::vector<float> divisors = {};
  double factor = 1;
};

}  // namespace autotuned::input
