// SPDX-License-Identifier: Apache-2.0
// PNG files of numbers, packed with zlib.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autotuned::input {

inline constexpr int kGreyPng = 0;
inline constexpr int kColourPng = 2;  // three numbers for each pixel
inline constexpr int kPalettePng = 3;

inline std::string png_number(std::uint32_t number) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U})
    bytes += static_cast<char>((number >> shift) & 0xffU);
  return bytes;
}

inline std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string all = name + content;
  const auto sum = static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(all.data()), static_cast<uInt>(all.size())));
  return png_number(static_cast<std::uint32_t>(content.size())) + all + png_number(sum);
}

// `numbers` row by row. With fewer than 8 bits each row is packed, the first number in the highest bits.
inline std::string png_file(int height, int width, const std::vector<std::uint8_t>& numbers,
                            int kind = kGreyPng, int bits = 8) {
  const int each = kind == kColourPng ? 3 : 1;
  std::string rows;
  std::size_t at = 0;
  for (int y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    unsigned packed = 0;
    int filled = 0;
    for (int x = 0; x < width * each; ++x) {
      packed = (packed << static_cast<unsigned>(bits)) | numbers.at(at++);
      filled += bits;
      if (filled == 8 || x + 1 == width * each) {
        rows += static_cast<char>((packed << static_cast<unsigned>(8 - filled)) & 0xffU);
        packed = 0;
        filled = 0;
      }
    }
  }
  uLongf length = compressBound(rows.size());
  std::string data(length, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(data.data()), &length,
                     reinterpret_cast<const Bytef*>(rows.data()), rows.size()),
            Z_OK);
  data.resize(length);
  std::string header = png_number(static_cast<std::uint32_t>(width)) +
                       png_number(static_cast<std::uint32_t>(height));
  header += static_cast<char>(bits);
  header += static_cast<char>(kind);
  header += std::string(3, '\0');
  std::string palette;
  for (int i = 0; kind == kPalettePng && i < (1 << bits); ++i)
    palette += std::string(3, static_cast<char>(255 - i));
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) +
         (palette.empty() ? std::string() : png_chunk("PLTE", palette)) + png_chunk("IDAT", data) +
         png_chunk("IEND", "");
}

}  // namespace autotuned::input
