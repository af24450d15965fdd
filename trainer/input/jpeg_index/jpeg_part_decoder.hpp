// SPDX-License-Identifier: Apache-2.0
// Parts of JPEG files that are in an index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "trainer/input/common/sample.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"
#include "trainer/input/jpeg_index/jpeg_header.hpp"
#include "trainer/input/jpeg_index/jpeg_part_file.hpp"
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

namespace autotuned::input {

// Kept between pictures. One thread at a time.
class JpegPartDecoder {
 public:
  // The shape of a picture whose file is in the index of its origin and has points; nothing for all others.
  [[nodiscard]] std::optional<SampleShape> begin(const Sample& sample);
  // Writes the bytes that JpegDecoder::decode_part() gives of the picture of the last begin(). False where that
  // is not possible: its points are wrong, and it counts as a file without from now on. REQUIRES: the part lies
  // within the picture.
  [[nodiscard]] bool decode(const Window& part, std::uint8_t* out);

  // Puts a file into the index of its origin, unless it is there.
  void index(const Sample& sample);

 private:
  void give_up();

  JpegScanner scanner_;
  JpegPartFile file_;
  JpegDecoder decoder_;
  // Of the last begin().
  Sample sample_;
  std::span<const JpegPoint> points_;
  JpegHeader header_;
};

}  // namespace autotuned::input
