// SPDX-License-Identifier: Apache-2.0
// Decodes PNG files. Only this unit and png_encoder include libpng.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::input {

// Whether these bytes begin as PNG files do.
[[nodiscard]] bool is_png(std::span<const std::uint8_t> file);

enum class PngPixels {
  // The colours, as PIL's convert("RGB") gives them: palettes and grey as RGB, the upper byte of 16 bits, transparency
  // dropped, no correction by gamma or profile. Grey of 16 bits, which PIL clips to white, is refused
  // (ErrorKind::unsupported).
  colours,
  // One channel of the numbers that the file has: indices of its palette, or grey of up to 8 bits, which stay what they
  // are whatever the number of bits. Files with other colours are refused (ErrorKind::unsupported).
  numbers,
};

// A damaged or cut file is ErrorKind::corrupt. Errors lack `where`.
//
// The interface is JpegDecoder's, whose requirements hold. One thread at a time.
class PngDecoder {
 public:
  explicit PngDecoder(PngPixels pixels = PngPixels::colours);
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  [[nodiscard]] Result<SampleShape> begin(std::span<const std::uint8_t> file);
  [[nodiscard]] Result<void> decode(std::uint8_t* out);
  // With Remainder::left, rows below the part are not unpacked, except in interlaced files.
  [[nodiscard]] Result<void> decode_part(const Window& part, std::uint8_t* out,
                                         Remainder remainder = Remainder::left);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
