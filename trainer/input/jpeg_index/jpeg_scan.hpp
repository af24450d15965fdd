// SPDX-License-Identifier: Apache-2.0
// Places in the Huffman code of a JPEG file from which it can be read without what comes before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/input/jpeg_index/jpeg_header.hpp"

namespace autotuned::input {

// Right before an MCU.
struct JpegPoint {
  std::array<std::uint16_t, 2> offset{};  // in bits from JpegHeader::scan_begin, low half first
  std::array<std::int16_t, 3> dc{};       // of the last block of each component

  [[nodiscard]] std::uint32_t bit() const { return std::uint32_t{offset[1]} << 16U | offset[0]; }
};

// Every so many MCUs of a row there is one, from the first on. Fewer would make what is decoded beside a
// crop wider, more would take memory.
inline constexpr int kMcusPerPoint = 4;

[[nodiscard]] inline int points_in_row(const JpegHeader& header) {
  return (header.mcus_across() + kMcusPerPoint - 1) / kMcusPerPoint;
}
// Row by row, and one for the end of the scan.
[[nodiscard]] inline std::size_t points_of(const JpegHeader& header) {
  return static_cast<std::size_t>(header.mcus_down()) *
             static_cast<std::size_t>(points_in_row(header)) +
         1;
}

// Reads the code without making pixels of it. Kept between files; one thread at a time.
class JpegScanner {
 public:
  JpegScanner();
  ~JpegScanner();
  JpegScanner(const JpegScanner&) = delete;
  JpegScanner& operator=(const JpegScanner&) = delete;

  // The points of a file, valid until the next call. Empty where it has none: it is of another kind than
  // read_jpeg_header() knows, restarts elsewhere than at the beginnings of rows, has values that cannot be
  // written into a JpegPartFile, or the least damage or anything else that one would not expect in it. So
  // a file with points is one that decodes whole.
  [[nodiscard]] std::span<const JpegPoint> scan(std::span<const std::uint8_t> file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
