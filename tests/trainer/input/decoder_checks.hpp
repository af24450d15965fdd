// SPDX-License-Identifier: Apache-2.0
// What holds for every decoder of pictures, whatever the format.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/common/random.hpp"

namespace autotuned::input {

inline std::vector<std::uint8_t> file_of(const std::string& name) {
  return bytes_of_file(fixture_path(name));
}

template <typename Decoder>
Result<std::vector<std::uint8_t>> decode(Decoder& decoder, std::span<const std::uint8_t> file) {
  const auto shape = decoder.begin(file);
  if (!shape) return tl::unexpected(shape.error());
  std::vector<std::uint8_t> picture(static_cast<std::size_t>(shape->elements()));
  const auto decoded = decoder.decode(picture.data());
  if (!decoded) return tl::unexpected(decoded.error());
  return picture;
}

inline std::vector<std::uint8_t> part_of(const std::vector<std::uint8_t>& whole,
                                         const SampleShape& shape, const Window& part) {
  std::vector<std::uint8_t> pixels;
  for (int channel = 0; channel < shape.channels; ++channel) {
    for (int y = part.top; y < part.top + part.height; ++y) {
      const auto row = whole.begin() + (std::ptrdiff_t{channel} * shape.height + y) * shape.width;
      pixels.insert(pixels.end(), row + part.left, row + part.left + part.width);
    }
  }
  return pixels;
}

// Every beginning of a file is refused as ErrorKind::corrupt, but for the last `unneeded_bytes`.
template <typename Decoder>
void expect_truncations_found(const std::vector<std::string>& names, std::size_t unneeded_bytes) {
  Decoder decoder;
  for (const std::string& name : names) {
    const auto file = file_of(name);
    for (std::size_t length = 0; length < file.size(); ++length) {
      // A copy, so that a read beyond the end is found.
      const std::vector<std::uint8_t> cut(file.begin(),
                                          file.begin() + static_cast<std::ptrdiff_t>(length));
      const auto picture = decode(decoder, cut);
      if (picture) {
        EXPECT_GE(length, file.size() - unneeded_bytes) << name;
        continue;
      }
      EXPECT_EQ(picture.error().kind, ErrorKind::corrupt) << name << " " << length;
    }
    EXPECT_TRUE(decode(decoder, file));
  }
}

// Damage is found or gives another picture, and never does harm. A part with the remainder checked is
// refused where the whole is, and has its pixels otherwise.
template <typename Decoder>
void expect_damage_survived(const std::vector<std::string>& names) {
  Decoder decoder;
  for (const std::string& name : names) {
    const auto file = file_of(name);
    const RandomStream random(file.size(), 0);
    std::uint64_t drawn = 0;
    const auto draw = [&](int bound) {
      return static_cast<int>(below(random.at(drawn++), static_cast<std::uint64_t>(bound)));
    };
    int refused = 0;
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const unsigned flip : {0x01U, 0x80U, 0xffU}) {
        auto damaged = file;
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ flip);
        const auto shape = decoder.begin(damaged);
        if (!shape) ++refused;
        if (!shape || shape->elements() > (1 << 20)) continue;  // too slow for a test
        const auto whole = decode(decoder, damaged);
        if (!whole) ++refused;

        Window part{.height = 1 + draw(shape->height), .width = 1 + draw(shape->width)};
        part.top = draw(shape->height - part.height + 1);
        part.left = draw(shape->width - part.width + 1);
        std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * part.height * part.width));
        ASSERT_TRUE(decoder.begin(damaged));
        const auto made = decoder.decode_part(part, pixels.data(), Remainder::checked);
        ASSERT_EQ(made.has_value(), whole.has_value())
            << name << " byte " << at << " ^ " << flip << ": "
            << (made ? whole.error() : made.error()).message();
        if (whole) {
          ASSERT_EQ(pixels, part_of(*whole, *shape, part)) << name << " byte " << at;
        }
      }
    }
    EXPECT_GT(refused, 0) << name;
    EXPECT_TRUE(decode(decoder, file));
  }
}

}  // namespace autotuned::input
