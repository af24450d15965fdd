// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a pixel-wise stage in words that whoever computes can follow: a thread or a device.
#pragma once

#include <vector>

namespace autotuned::input {

// What becomes of the number x of channel c. Every operation is rounded by itself, in the order in which it
// stands here: one that fuses two of them may give other bits.
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
