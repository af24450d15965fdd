// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_index/jpeg_header.hpp"

#include <algorithm>
#include <string_view>

#include "trainer/input/jpeg_index/jpeg_codes.hpp"

namespace autotuned::input {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint8_t kStartOfImage = 0xd8;
constexpr std::uint8_t kBaseline = 0xc0;
constexpr std::uint8_t kExtended = 0xc1;
constexpr std::uint8_t kHuffmanTables = 0xc4;
constexpr std::uint8_t kQuantisationTables = 0xdb;
constexpr std::uint8_t kRestartInterval = 0xdd;
constexpr std::uint8_t kStartOfScan = 0xda;
constexpr std::uint8_t kJfif = 0xe0;
constexpr std::uint8_t kAdobe = 0xee;
constexpr std::uint8_t kLastApplication = 0xef;
constexpr std::uint8_t kComment = 0xfe;
constexpr std::size_t kLengths = 16;  // of Huffman codes, in bits
constexpr std::size_t kMaxSymbols = 256;

int two_bytes(Bytes bytes, std::size_t at) {
  return bytes[at] << 8 | bytes[at + 1];
}

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::ranges::equal(bytes.first(text.size()), text, {},
                            [](std::uint8_t byte) { return static_cast<char>(byte); });
}

bool read_quantisation(Bytes segment, JpegHeader& header) {
  constexpr std::size_t kValues = 64;
  while (!segment.empty()) {
    const std::size_t number = segment[0] & 15U;
    const std::size_t precision = segment[0] >> 4U;
    const std::size_t bytes = 1 + kValues * (precision + 1);
    if (number >= header.quantisation.size() || precision > 1 || segment.size() < bytes)
      return false;
    header.quantisation[number] = segment.first(bytes);
    segment = segment.subspan(bytes);
  }
  return true;
}

bool read_huffman(Bytes segment, JpegHeader& header) {
  while (!segment.empty()) {
    const std::size_t number = segment[0] & 15U;
    const unsigned kind = segment[0] >> 4U;
    if (segment.size() < 1 + kLengths || number >= header.dc.size() || kind > 1) return false;
    std::size_t symbols = 0;
    for (const std::uint8_t count : segment.subspan(1, kLengths))
      symbols += count;
    const std::size_t bytes = kLengths + symbols;
    if (symbols > kMaxSymbols || segment.size() < 1 + bytes) return false;
    (kind == 0 ? header.dc : header.ac)[number] = segment.subspan(1, bytes);
    segment = segment.subspan(1 + bytes);
  }
  return true;
}

bool has_known_sampling(const JpegHeader& header) {
  const JpegComponent& first = header.component[0];
  for (int i = 1; i < header.components; ++i) {
    const JpegComponent& other = header.component[static_cast<std::size_t>(i)];
    if (other.across != 1 || other.down != 1) return false;
  }
  return (first.across == 1 && first.down == 1) ||
         (first.across == 2 && (first.down == 1 || first.down == 2));
}

bool read_frame(Bytes segment, JpegHeader& header) {
  constexpr std::size_t kBefore = 6;  // the first component
  constexpr std::size_t kEach = 3;
  constexpr int kBits = 8;
  if (segment.size() < kBefore || segment[0] != kBits) return false;
  header.height = two_bytes(segment, 1);
  header.width = two_bytes(segment, 3);
  header.components = segment[5];
  if (header.height == 0 || header.width == 0) return false;
  if (header.components != 1 && header.components != 3) return false;
  if (segment.size() != kBefore + kEach * static_cast<std::size_t>(header.components)) return false;
  for (int i = 0; i < header.components; ++i) {
    const Bytes from = segment.subspan(kBefore + kEach * static_cast<std::size_t>(i), kEach);
    JpegComponent& to = header.component[static_cast<std::size_t>(i)];
    to = {.id = from[0],
          .across = static_cast<std::uint8_t>(from[1] >> 4U),
          .down = static_cast<std::uint8_t>(from[1] & 15U),
          .quantisation = from[2]};
    constexpr int kMaxFactor = 4;
    const auto is_factor = [](int factor) { return factor >= 1 && factor <= kMaxFactor; };
    if (!is_factor(to.across) || !is_factor(to.down)) return false;
    if (to.quantisation >= header.quantisation.size()) return false;
  }
  // A single component is not interleaved: its MCUs are single blocks.
  if (header.components == 1) header.component[0].across = header.component[0].down = 1;
  return has_known_sampling(header);
}

// Reads the header of a single scan with all components, in the order of the frame.
bool read_scan(Bytes segment, JpegHeader& header) {
  const auto components = static_cast<std::size_t>(header.components);
  if (segment.size() != 1 + 2 * components + 3 || segment[0] != components) return false;
  for (std::size_t i = 0; i < components; ++i) {
    JpegComponent& one = header.component[i];
    const std::uint8_t tables = segment[2 + 2 * i];
    one.dc = tables >> 4U;
    one.ac = tables & 15U;
    if (segment[1 + 2 * i] != one.id) return false;
    if (one.dc >= header.dc.size() || header.dc[one.dc].empty()) return false;
    if (one.ac >= header.ac.size() || header.ac[one.ac].empty()) return false;
    if (header.quantisation[one.quantisation].empty()) return false;
  }
  constexpr std::array<std::uint8_t, 3> kAllCoefficients = {0, 63, 0};
  return std::ranges::equal(segment.last(3), kAllCoefficients);
}

void read_application(std::uint8_t marker, Bytes segment, JpegHeader& header) {
  constexpr std::size_t kJfifBytes = 14;
  constexpr std::size_t kAdobeBytes = 12;
  if (marker == kJfif && segment.size() >= kJfifBytes &&
      begins_with(segment, std::string_view("JFIF\0", 5))) {
    header.is_jfif = true;
  }
  if (marker == kAdobe && segment.size() >= kAdobeBytes && begins_with(segment, "Adobe")) {
    header.adobe_transform = segment[kAdobeBytes - 1];
  }
}

}  // namespace

std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file) {
  if (file.size() < 2 || file[0] != kMark || file[1] != kStartOfImage) return std::nullopt;
  JpegHeader header;
  bool has_frame = false;
  for (std::size_t at = 2;;) {
    constexpr std::size_t kMarkerBytes = 4;  // with the length
    if (file.size() - at < kMarkerBytes || file[at] != kMark) return std::nullopt;
    const std::uint8_t marker = file[at + 1];
    const auto length = static_cast<std::size_t>(two_bytes(file, at + 2));
    if (length < 2 || file.size() - at - 2 < length) return std::nullopt;
    const Bytes segment = file.subspan(at + kMarkerBytes, length - 2);
    at += 2 + length;
    bool is_right = true;
    if (marker == kQuantisationTables) {
      is_right = read_quantisation(segment, header);
    } else if (marker == kHuffmanTables) {
      is_right = read_huffman(segment, header);
    } else if (marker == kRestartInterval) {
      is_right = segment.size() == 2;
      if (is_right) header.restart_interval = two_bytes(segment, 0);
    } else if (marker == kBaseline || marker == kExtended) {
      is_right = !has_frame && read_frame(segment, header);
      has_frame = true;
    } else if (marker == kStartOfScan) {
      if (!has_frame || !read_scan(segment, header)) return std::nullopt;
      header.scan_begin = at;
      return header;
    } else if (marker >= kJfif && marker <= kLastApplication) {
      read_application(marker, segment, header);
    } else {
      is_right = marker == kComment;
    }
    if (!is_right) return std::nullopt;
  }
}

}  // namespace autotuned::input
