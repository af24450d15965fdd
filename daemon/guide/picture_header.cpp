// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/picture_header.hpp"

#include <algorithm>
#include <cstddef>

namespace autotuned::daemon {

namespace {

int byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

int word_at(std::string_view bytes, std::size_t at) {
  return byte_at(bytes, at) * 256 + byte_at(bytes, at + 1);
}

// Width and height have 32 bits; pictures that can be trained on only use the lower 16.
int side_of_png(std::string_view bytes) {
  constexpr std::size_t kWidth = 16;
  constexpr std::size_t kHeight = 20;
  if (bytes.size() < kHeight + 4) return 0;
  if (word_at(bytes, kWidth) != 0 || word_at(bytes, kHeight) != 0) return 0;
  return std::min(word_at(bytes, kWidth + 2), word_at(bytes, kHeight + 2));
}

bool is_start_of_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Goes from segment to segment to the one that begins the picture, which has its length, the bits, height and width.
int side_of_jpeg(std::string_view bytes) {
  std::size_t at = 2;
  while (at + 9 <= bytes.size()) {
    if (byte_at(bytes, at) != 0xFF) return 0;
    const int marker = byte_at(bytes, at + 1);
    if (marker == 0xFF) {
      ++at;
    } else if (is_start_of_frame(marker)) {
      return std::min(word_at(bytes, at + 5), word_at(bytes, at + 7));
    } else {
      at += 2 + static_cast<std::size_t>(word_at(bytes, at + 2));
    }
  }
  return 0;
}

}  // namespace

int shorter_side(std::string_view first_bytes) {
  if (first_bytes.starts_with("\x89PNG\r\n\x1A\n")) return side_of_png(first_bytes);
  if (first_bytes.starts_with("\xFF\xD8")) return side_of_jpeg(first_bytes);
  return 0;
}

}  // namespace autotuned::daemon
