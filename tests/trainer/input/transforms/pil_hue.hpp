// SPDX-License-Identifier: Apache-2.0
// A colour with its hue turned, as PIL computes it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace autotuned::input {

// PIL's arithmetic as it stands there, colour by colour.
inline std::array<std::uint8_t, 3> turned(int red, int green, int blue, std::uint8_t by) {
  const int most = std::max({red, green, blue});
  const int least = std::min({red, green, blue});
  std::uint8_t hue = 0;
  std::uint8_t saturation = 0;
  if (most != least) {
    const auto range = static_cast<float>(most - least);
    const float from_red = static_cast<float>(most - red) / range;
    const float from_green = static_cast<float>(most - green) / range;
    const float from_blue = static_cast<float>(most - blue) / range;
    float sixths = 0;
    if (red == most) {
      sixths = from_blue - from_green;
    } else if (green == most) {
      sixths = static_cast<float>(2.0 + from_red - from_blue);
    } else {
      sixths = static_cast<float>(4.0 + from_green - from_red);
    }
    const auto share = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
    hue = static_cast<std::uint8_t>(std::clamp(static_cast<int>(share * 255.0), 0, 255));
    const float of_most = range / static_cast<float>(most);
    saturation = static_cast<std::uint8_t>(std::clamp(static_cast<int>(of_most * 255.0), 0, 255));
  }
  hue = static_cast<std::uint8_t>(hue + by);
  const auto v = static_cast<std::uint8_t>(most);
  if (saturation == 0) return {v, v, v};
  const double sixths = hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto rest = static_cast<float>(sixths - sector);
  const auto share = static_cast<float>(saturation / 255.0);
  const auto byte = [v](double factor) {
    return static_cast<std::uint8_t>(std::clamp(static_cast<int>(std::round(v * factor)), 0, 255));
  };
  const std::uint8_t p = byte(1.0 - share);
  const std::uint8_t q = byte(1.0 - share * rest);
  const std::uint8_t t = byte(1.0 - share * (1.0 - rest));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  return sectors[static_cast<std::size_t>(sector % 6)];
}

}  // namespace autotuned::input
