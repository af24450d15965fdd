// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/mask.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace autotuned::input {
namespace {

constexpr unsigned kBits = 64;
constexpr std::uint32_t kWhole = 65'536;  // parts of a ratio

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
  before_.resize(words_.size());
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

void Mask::dilate() {
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
