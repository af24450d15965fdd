// SPDX-License-Identifier: Apache-2.0
// The header of a JPEG file of a common kind: baseline or extended sequential with 8 bits, one scan, grey or colour as
// 4:4:4, 4:2:2 or 4:2:0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace autotuned::input {

struct JpegComponent {
  std::uint8_t id = 0;
  std::uint8_t across = 1;  // blocks of it in an MCU; 1 in a grey picture, whatever its file says
  std::uint8_t down = 1;
  std::uint8_t quantisation = 0;  // the numbers of its tables
  std::uint8_t dc = 0;
  std::uint8_t ac = 0;
};

// An MCU is the smallest unit of the scan: all blocks of 8 x 8 pixels of its components for a rectangle.
struct JpegHeader {
  int height = 1;
  int width = 1;
  int components = 1;  // 1 or 3
  std::array<JpegComponent, 3> component{};
  int restart_interval = 0;  // MCUs; 0: none
  // In the form of the file: precision and number, then the values.
  std::array<std::span<const std::uint8_t>, 4> quantisation;
  // 16 numbers of codes by length, and the symbols. Empty: not given.
  std::array<std::span<const std::uint8_t>, 4> dc;
  std::array<std::span<const std::uint8_t>, 4> ac;
  bool is_jfif = false;
  int adobe_transform = -1;    // -1: the file does not say
  std::size_t scan_begin = 0;  // of the code, from the front of the file

  [[nodiscard]] int mcu_width() const { return kBlock * component[0].across; }
  [[nodiscard]] int mcu_height() const { return kBlock * component[0].down; }
  [[nodiscard]] int mcus_across() const { return (width + mcu_width() - 1) / mcu_width(); }
  [[nodiscard]] int mcus_down() const { return (height + mcu_height() - 1) / mcu_height(); }

 private:
  static constexpr int kBlock = 8;
};

// Nothing if the file is of another kind or its header is incomplete. The spans point into `file`.
[[nodiscard]] std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file);

}  // namespace autotuned::input
