// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows of bytes: a filter along the columns of a picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace autotuned::input {

// The number of binary digits after the point of a weight. The weights of a sum are 1 together, or very little more, so
// the sum of bytes times weights fits into 32 bits; its top byte is the result.
inline constexpr int kWeightBits = 24;

// The weights of every pixel of an axis. The upper and lower halves of two successive weights are stored side by side,
// as 16-bit multiplication needs them.
class RowWeights {
 public:
  // Removes all weights. From now on a pixel has at most `most_weights`.
  void reset(std::size_t pixels, std::size_t most_weights);
  // Adds the weights of one pixel, for the rows from `first` on. REQUIRES: 1 to most_weights weights, whose sum is at
  // most 2^kWeightBits plus two for each.
  void set(std::size_t pixel, std::size_t first, std::span<const std::uint32_t> weights);
  [[nodiscard]] std::size_t size() const { return pixels_.size(); }

  // The weighted sum of rows of `width` bytes, one after the other from `rows` on: pixel `pixel` of every column.
  void weigh(std::size_t pixel, const std::uint8_t* rows, std::size_t width,
             std::uint8_t* out) const;

  struct Pair {
    std::uint32_t high =
        0;  // the upper halves, 12 digits and one more, the second's above the first's
    std::uint32_t low = 0;
  };

 private:
  struct Pixel {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  std::vector<Pixel> pixels_;
  std::size_t pairs_of_pixel_ = 0;
  std::vector<Pair> pairs_;
};

// Transposes bytes: to[x * rows + y] = from[y * width + x].
void transpose(const std::uint8_t* from, std::size_t rows, std::size_t width, std::uint8_t* to);

}  // namespace autotuned::input
