// SPDX-License-Identifier: Apache-2.0
// Writes PNG files of one number for each pixel, as class masks are stored.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"

namespace autotuned::input {

// The bytes of a file: grey of 8 bits, the numbers row by row, which PngPixels::numbers reads back. Any thread.
// ErrorKind::internal: libpng refuses, in its words. REQUIRES: height * width numbers, at least one.
[[nodiscard]] Result<std::string> encode_png(std::span<const std::uint8_t> numbers, int height,
                                             int width);

}  // namespace autotuned::input
