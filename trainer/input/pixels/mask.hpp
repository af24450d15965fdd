// SPDX-License-Identifier: Apache-2.0
// A set of cells of a picture, 64 to a word: cell x of a row is bit x % 64 of word x / 64. Bits beyond
// the width are clear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/input/common/random.hpp"

namespace autotuned::input {

// Three methods of dilation with the same result.
enum class Dilation {
  convolution,  // a convolution of cells as floats with a cross of 3 x 3 weights
  shifts,       // the union of cells as bytes, shifted up, down, left and right
  bits,         // the same with 64 cells of a word at a time
};

class Mask {
 public:
  // Clears every cell. REQUIRES: height, width >= 1. Allocates only if the mask grows.
  void reshape(int height, int width);

  // Sets each cell at random with a probability of `parts` in 65,536. Each binary digit of `parts`, from the lowest set
  // one to the highest (16 at most), takes one random word: a digit 1 unites the mask with the word, a digit 0
  // intersects them. Words are drawn in the order of rows, words and
  // digits. Changing this changes what recipes train.
  void draw(std::uint32_t parts, const RandomStream& draws);

  void set(int row, int column) {
    words_[static_cast<std::size_t>(row) * words_per_row_ +
           static_cast<std::size_t>(column) / 64] |= std::uint64_t{1}
                                                     << (static_cast<unsigned>(column) % 64U);
  }

  // Sets the four neighbours of every set cell. Allocates only if the mask grows.
  void dilate(Dilation how = Dilation::bits);

  [[nodiscard]] bool contains(int row, int column) const {
    return ((row_of(row)[column / 64] >> (static_cast<unsigned>(column) % 64U)) & 1U) != 0;
  }

  [[nodiscard]] const std::uint64_t* row_of(int row) const {
    return words_.data() + static_cast<std::size_t>(row) * words_per_row_;
  }
  [[nodiscard]] int height() const { return height_; }
  [[nodiscard]] int width() const { return width_; }

 private:
  void dilate_by_convolution();
  void dilate_by_shifts();
  void dilate_bits();
  // Sets exactly the cells of a row whose `values` are above zero.
  template <class T>
  void set_row(int row, const T* values);

  int height_ = 0;
  int width_ = 0;
  std::size_t words_per_row_ = 0;
  std::uint64_t last_word_ = 0;  // the bits of a row's last word that are cells
  std::vector<std::uint64_t> words_;
  // Memory of dilate(), for one method each.
  std::vector<float> numbers_;  // with a rim of zeros
  std::vector<float> sums_;     // of a row
  std::vector<std::uint8_t> cells_;
  std::vector<std::uint8_t> united_;  // a row
  std::vector<std::uint64_t> before_;
};

}  // namespace autotuned::input
