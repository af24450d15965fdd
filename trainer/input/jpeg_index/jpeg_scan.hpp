// SPDX-License-Identifier: Apache-2.0
// Positions in the Huffman code of a JPEG file from which it can be read without the code before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/input/jpeg_index/jpeg_header.hpp"

namespace autotuned::input {

// The position right before an MCU.
struct JpegPoint {
  std::array<std::uint16_t, 2> offset{};  // in bits from JpegHeader::scan_begin, low half first
  std::array<std::int16_t, 3> dc{};       // of the last block of each component

  [[nodiscard]] std::uint32_t bit() const { return std::uint32_t{offset[1]} << 16U | offset[0]; }
};

// The distance of points in a row, in MCUs, from the first one on. A larger distance makes the decoder decode more
// beside a crop; a smaller one takes more memory.
inline constexpr int kMcusPerPoint = 4;

[[nodiscard]] inline int points_in_row(const JpegHeader& header) {
  return (header.mcus_across() + kMcusPerPoint - 1) / kMcusPerPoint;
}
// Points row by row, and one for the end of the scan.
[[nodiscard]] inline std::size_t points_of(const JpegHeader& header) {
  return static_cast<std::size_t>(header.mcus_down()) *
             static_cast<std::size_t>(points_in_row(header)) +
         1;
}

// Reads the code without decoding pixels. Keep one for many files: it reuses its memory. One thread at a time.
class JpegScanner {
 public:
  JpegScanner();
  ~JpegScanner();
  JpegScanner(const JpegScanner&) = delete;
  JpegScanner& operator=(const JpegScanner&) = delete;

  // The points of a file, valid until the next call. Empty if the file has none: it is of a kind that
  // read_jpeg_header() does not know, has restarts inside rows or values that cannot be written into a JpegPartFile,
  // or is damaged or unusual in any way. So a file with points can be decoded as a whole.
  [[nodiscard]] std::span<const JpegPoint> scan(std::span<const std::uint8_t> file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
