// SPDX-License-Identifier: Apache-2.0
// An entry of a JpegIndex, in memory and in its file. Its points follow it.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <span>
#include <type_traits>

#include "trainer/input/common/sample.hpp"
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

namespace autotuned::input {

struct EntryHeader {
  FileStamp stamp;
  std::uint32_t checksum = 0;  // CRC-32 of the file
  std::uint32_t points = 0;
};
static_assert(std::is_trivially_copyable_v<EntryHeader> && sizeof(EntryHeader) == 24);
static_assert(std::is_trivially_copyable_v<JpegPoint> && sizeof(JpegPoint) == 10);

inline std::uint32_t checksum_of(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, bytes.data(), bytes.size()));
}

}  // namespace autotuned::input
