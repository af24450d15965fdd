// SPDX-License-Identifier: Apache-2.0
// PIL's changes of colours, byte for byte. Any number of threads, each on planes of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace autotuned::input {

struct Planes {
  std::uint8_t* red;
  std::uint8_t* green;
  std::uint8_t* blue;
  std::size_t count;  // of each
};

// PIL's Image.blend: from `base` towards `value` and beyond, truncated to an integer.
[[nodiscard]] inline std::uint8_t blended(std::int32_t base, std::int32_t value, float factor) {
  const float moved = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<std::uint8_t>(std::clamp(moved, 0.0F, 255.0F));
}

// PIL's ImageEnhance. A factor of 1 changes nothing, one of 0 gives black, the mean grey and the greys of the pixels.
void change_brightness(float factor, const Planes& planes);
void change_contrast(float factor, const Planes& planes);
void change_saturation(float factor, const Planes& planes);

}  // namespace autotuned::input
