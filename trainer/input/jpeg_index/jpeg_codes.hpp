// SPDX-License-Identifier: Apache-2.0
// The codes of a Huffman table of a JPEG file, and its markers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace autotuned::input {

inline constexpr int kLongestCode = 16;  // bits

// A marker is this byte and one that says which it is.
inline constexpr std::uint8_t kMark = 0xff;
inline constexpr std::uint8_t kFirstRestart = 0xd0;
inline constexpr std::uint8_t kRestarts = 8;
inline constexpr std::uint8_t kEndOfImage = 0xd9;

// Calls take(symbol, code, bits) for each code, shortest first. False: the table is invalid. At each length the pattern
// of all ones must stay unused.
// REQUIRES: `table` as JpegHeader has it, not empty.
template <class Take>
bool for_each_code(std::span<const std::uint8_t> table, Take&& take) {
  std::uint32_t code = 0;
  std::size_t at = kLongestCode;
  for (int bits = 1; bits <= kLongestCode; ++bits, code <<= 1U) {
    const int count = table[static_cast<std::size_t>(bits - 1)];
    if (code + static_cast<std::uint32_t>(count) >= std::uint32_t{1} << static_cast<unsigned>(bits))
      return false;
    for (int i = 0; i < count; ++i, ++code)
      take(table[at++], code, bits);
  }
  return true;
}

struct JpegCode {
  std::uint16_t code = 0;
  std::uint8_t bits = 0;  // 0: no code
};

// A table for writing. Symbols can be added to those of its file, whose codes stay the same.
class JpegCodes {
 public:
  // False: the table is invalid. REQUIRES: as for_each_code().
  [[nodiscard]] bool assign(std::span<const std::uint8_t> table);
  // Adds those of `symbols` that have no code. False: the table has no room for them.
  [[nodiscard]] bool add(std::span<const std::uint8_t> symbols);

  [[nodiscard]] JpegCode of(std::uint8_t symbol) const { return codes_[symbol]; }
  // In the form of a file: kLongestCode numbers, and the symbols.
  [[nodiscard]] std::span<const std::uint8_t> table() const { return {table_.data(), size_}; }

 private:
  std::array<std::uint8_t, kLongestCode + 256> table_{};
  std::size_t size_ = 0;
  std::array<JpegCode, 256> codes_{};
  std::uint32_t next_ = 0;  // the first pattern behind the last code, and its bits
  int last_bits_ = 0;
};

}  // namespace autotuned::input
