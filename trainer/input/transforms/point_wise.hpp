// SPDX-License-Identifier: Apache-2.0
// Transforms that change every number by itself: to_float, scale, normalize.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// The operation on a number v. Tables, samples and batches use the same arithmetic:
//   to_float:  v = v / 255                           torchvision's ToTensor
//   scale:     v = float(double(v) * by)             one rounding; by = 1/255 gives PyTorch's v / 255
//   normalize: v = (v - float(mean)) / float(std)    two roundings, as torchvision's Normalize
class PointOperation {
 public:
  // ErrorKind::invalid: a parameter is missing, not finite, zero although it divides, or its list has
  // another length than there are channels. ErrorKind::unsupported: not one of the three.
  [[nodiscard]] static Result<PointOperation> create(const Transform& transform, int channels);

  // Changes `count` numbers of one channel. REQUIRES: 0 <= channel < channels.
  void apply(float* values, std::size_t count, int channel) const;
  [[nodiscard]] PixelFormula formula(int channels) const;

 private:
  enum class Kind { to_float, scale, normalize };
  Kind kind_ = Kind::to_float;
  double by_ = 1;
  std::vector<float> mean_;  // one per channel
  std::vector<float> std_;
};

}  // namespace autotuned::input
