// SPDX-License-Identifier: Apache-2.0
// Converts pixels to planes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autotuned::input {

// Writes three planes, `plane` bytes apart, from `width` pixels of kPixelBytes bytes that begin with red, green and
// blue.
template <std::size_t kPixelBytes>
void split_row(const std::uint8_t* row, std::size_t width, std::uint8_t* out, std::size_t plane) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    std::uint8_t* const to = out + channel * plane;
    for (std::size_t x = 0; x < width; ++x)
      to[x] = row[kPixelBytes * x + channel];
  }
}

}  // namespace autotuned::input
