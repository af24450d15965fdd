// SPDX-License-Identifier: Apache-2.0
// One row of bytes out of several, each times a weight: what a filter does along the columns of a picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace autotuned::input {

// A weight of 1 has so many binary digits behind the point. The sum of bytes times such weights, which
// together are 1 or very little more, fits into 32 bits; its top byte is the result.
inline constexpr int kWeightBits = 24;

// The weights of every pixel of an axis. Of two weights that follow each other the upper and lower halves lie
// side by side, as 16-bit multiplication takes them.
class RowWeights {
 public:
  // Forgets everything. No pixel will have more weights than that.
  void reset(std::size_t pixels, std::size_t most_weights);
  // Of one pixel, for the rows from `first` on. REQUIRES: 1 to most_weights of them, which together are at most
  // 2^kWeightBits plus two for each.
  void set(std::size_t pixel, std::size_t first, std::span<const std::uint32_t> weights);
  [[nodiscard]] std::size_t size() const { return pixels_.size(); }

  // Weighs rows of `width` bytes that lie one behind the other from `rows` on: what pixel `pixel` of every
  // column becomes.
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

// Rows and columns of bytes exchanged: to[x * rows + y] = from[y * width + x].
void transpose(const std::uint8_t* from, std::size_t rows, std::size_t width, std::uint8_t* to);

}  // namespace autotuned::input
