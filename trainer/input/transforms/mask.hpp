// SPDX-License-Identifier: Apache-2.0
// A set of cells of a picture, 64 to a word: cell x of a row is bit x % 64 of word x / 64. Bits beyond
// the width are clear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/input/common/random.hpp"

namespace autotuned::input {

// How cells are set beside those that are: three ways to the same cells.
enum class Dilation {
  convolution,  // cells as numbers, added up under a cross of 3 x 3 weights
  shifts,       // cells as bytes, united with those above, below and beside them
  bits,         // as they lie, 64 at a time
};

class Mask {
 public:
  // Clears every cell. REQUIRES: height, width >= 1. Takes memory only where it grows.
  void reshape(int height, int width);

  // Sets every cell or clears it, by chance. The ratio is `parts` of 65,536: its binary digits from the
  // lowest that is set to the highest, 16 at most, take one random word each; a digit 1 unites the
  // word with what there is, a digit 0 intersects. Words are drawn in the order of rows, words and
  // digits. Changing this changes what recipes train.
  void draw(std::uint32_t parts, const RandomStream& draws);

  void set(int row, int column) {
    words_[static_cast<std::size_t>(row) * words_per_row_ +
           static_cast<std::size_t>(column) / 64] |= std::uint64_t{1}
                                                     << (static_cast<unsigned>(column) % 64U);
  }

  // Also sets the four neighbours of every cell that is set. Takes memory only where it grows.
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
  // Sets the cells of a row that `values` have above zero, and no others.
  template <class T>
  void set_row(int row, const T* values);

  int height_ = 0;
  int width_ = 0;
  std::size_t words_per_row_ = 0;
  std::uint64_t last_word_ = 0;  // the bits of a row's last word that are cells
  std::vector<std::uint64_t> words_;
  // Of dilate(), each of one way.
  std::vector<float> numbers_;  // with a rim of zeros
  std::vector<float> sums_;     // of a row
  std::vector<std::uint8_t> cells_;
  std::vector<std::uint8_t> united_;  // a row
  std::vector<std::uint64_t> before_;
};

}  // namespace autotuned::input
