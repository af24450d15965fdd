// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_codes.hpp"

#include <algorithm>

namespace autotuned::input {

bool JpegCodes::assign(std::span<const std::uint8_t> table) {
  if (table.size() > table_.size()) return false;
  std::ranges::copy(table, table_.begin());
  size_ = table.size();
  codes_.fill({});
  last_bits_ = 0;
  const bool is_code =
      for_each_code(table, [this](std::uint8_t symbol, std::uint32_t code, int bits) {
        codes_[symbol] = {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(bits)};
        next_ = code + 1;
        last_bits_ = bits;
      });
  return is_code && last_bits_ > 0;
}

bool JpegCodes::add(std::span<const std::uint8_t> symbols) {
  const auto missing = static_cast<std::size_t>(
      std::ranges::count_if(symbols, [this](std::uint8_t one) { return of(one).bits == 0; }));
  if (missing == 0) return true;
  if (size_ + missing > table_.size()) return false;
  // The patterns that are left at the end of the longest codes, made longer until there are enough.
  std::uint32_t next = next_;
  int bits = last_bits_;
  while ((std::uint32_t{1} << static_cast<unsigned>(bits)) - next <= missing) {
    if (++bits > kLongestCode) return false;
    next <<= 1U;
  }
  constexpr std::size_t kMaxOfOneLength = 255;  // a byte holds their number
  if (table_[static_cast<std::size_t>(bits - 1)] + missing > kMaxOfOneLength) return false;
  for (const std::uint8_t symbol : symbols) {
    if (of(symbol).bits != 0) continue;
    codes_[symbol] = {static_cast<std::uint16_t>(next++), static_cast<std::uint8_t>(bits)};
    ++table_[static_cast<std::size_t>(bits - 1)];
    table_[size_++] = symbol;
  }
  next_ = next;
  last_bits_ = bits;
  return true;
}

}  // namespace autotuned::input
