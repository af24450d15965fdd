// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/pixels/mask.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace autotuned::input {
namespace {

constexpr unsigned kBits = 64;
constexpr std::uint32_t kWhole = 65'536;  // parts of a ratio

constexpr std::size_t kSide = 3;
constexpr std::array<std::array<float, kSide>, kSide> kCross = {
    {{0.0F, 1.0F, 0.0F}, {1.0F, 1.0F, 1.0F}, {0.0F, 1.0F, 0.0F}}};

}  // namespace

void Mask::reshape(int height, int width) {
  assert(height >= 1 && width >= 1);
  height_ = height;
  width_ = width;
  words_per_row_ = (static_cast<std::size_t>(width) + kBits - 1) / kBits;
  const unsigned unused =
      static_cast<unsigned>(words_per_row_ * kBits) - static_cast<unsigned>(width);
  last_word_ = ~std::uint64_t{0} >> unused;
  words_.assign(words_per_row_ * static_cast<std::size_t>(height), 0);
}

void Mask::draw(std::uint32_t parts, const RandomStream& draws) {
  assert(parts <= kWhole);
  const std::uint64_t certain = parts == kWhole ? ~std::uint64_t{0} : 0;
  const bool is_certain = parts == 0 || parts == kWhole;
  const unsigned lowest = is_certain ? 16 : static_cast<unsigned>(std::countr_zero(parts));
  std::uint64_t next = 0;
  for (std::uint64_t& word : words_) {
    word = certain;
    for (unsigned digit = lowest; digit < 16; ++digit) {
      const std::uint64_t random = draws.at(next++);
      word = (parts >> digit & 1U) != 0 ? word | random : word & random;
    }
  }
  for (std::size_t last = words_per_row_ - 1; last < words_.size(); last += words_per_row_)
    words_[last] &= last_word_;
}

void Mask::dilate(Dilation how) {
  switch (how) {
    case Dilation::convolution:
      return dilate_by_convolution();
    case Dilation::shifts:
      return dilate_by_shifts();
    case Dilation::bits:
      return dilate_bits();
  }
}

template <class T>
void Mask::set_row(int row, const T* values) {
  std::uint64_t* const words = words_.data() + static_cast<std::size_t>(row) * words_per_row_;
  std::fill_n(words, words_per_row_, 0);
  for (std::size_t x = 0; x < static_cast<std::size_t>(width_); ++x)
    words[x / kBits] |= std::uint64_t{values[x] > 0} << (x % kBits);
}

void Mask::dilate_by_convolution() {
  const auto width = static_cast<std::size_t>(width_);
  const std::size_t stride = width + kSide - 1;
  numbers_.assign(stride * (static_cast<std::size_t>(height_) + kSide - 1), 0.0F);
  sums_.resize(width);
  for (int row = 0; row < height_; ++row) {
    float* const to = numbers_.data() + (static_cast<std::size_t>(row) + 1) * stride + 1;
    for (int column = 0; column < width_; ++column)
      to[column] = contains(row, column) ? 1.0F : 0.0F;
  }
  for (int row = 0; row < height_; ++row) {
    std::ranges::fill(sums_, 0.0F);
    for (std::size_t y = 0; y < kSide; ++y) {
      for (std::size_t x = 0; x < kSide; ++x) {
        const float* const from =
            numbers_.data() + (static_cast<std::size_t>(row) + y) * stride + x;
        for (std::size_t column = 0; column < width; ++column)
          sums_[column] += kCross[y][x] * from[column];
      }
    }
    set_row(row, sums_.data());
  }
}

void Mask::dilate_by_shifts() {
  const auto width = static_cast<std::size_t>(width_);
  cells_.resize(width * static_cast<std::size_t>(height_));
  united_.resize(width);
  for (int row = 0; row < height_; ++row) {
    std::uint8_t* const to = cells_.data() + static_cast<std::size_t>(row) * width;
    for (int column = 0; column < width_; ++column)
      to[column] = contains(row, column) ? 1 : 0;
  }
  const auto unite = [&](const std::uint8_t* from, std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      united_[first + i] |= from[i];
  };
  for (int row = 0; row < height_; ++row) {
    const std::uint8_t* const from = cells_.data() + static_cast<std::size_t>(row) * width;
    std::copy_n(from, width, united_.begin());
    if (row > 0) unite(from - width, 0, width);
    if (row + 1 < height_) unite(from + width, 0, width);
    unite(from, 1, width - 1);
    unite(from + 1, 0, width - 1);
    set_row(row, united_.data());
  }
}

void Mask::dilate_bits() {
  before_ = words_;
  const std::size_t count = words_per_row_;
  std::size_t column = 0;
  for (std::size_t at = 0; at < words_.size();
       ++at, column = column + 1 == count ? 0 : column + 1) {
    const std::uint64_t self = before_[at];
    std::uint64_t word = self | self << 1U | self >> 1U;
    if (column > 0) word |= before_[at - 1] >> (kBits - 1);
    if (column + 1 < count) word |= before_[at + 1] << (kBits - 1);
    if (at >= count) word |= before_[at - count];
    if (at + count < words_.size()) word |= before_[at + count];
    if (column + 1 == count) word &= last_word_;
    words_[at] = word;
  }
}

}  // namespace autotuned::input
