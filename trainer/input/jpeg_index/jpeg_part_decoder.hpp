// SPDX-License-Identifier: Apache-2.0
// Decodes parts of JPEG files with the help of an index.
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

// Keep a decoder for many pictures: it reuses its memory. One thread at a time.
class JpegPartDecoder {
 public:
  // The shape of a picture, if the index of its origin has points for its file; otherwise nothing.
  [[nodiscard]] std::optional<SampleShape> begin(const Sample& sample);
  // Writes the same bytes as JpegDecoder::decode_part() for the picture of the last begin(). False: its points are
  // wrong, and from now on the file counts as one without points. REQUIRES: the part lies within the picture.
  [[nodiscard]] bool decode(const Window& part, std::uint8_t* out);

  // Adds a file to the index of its origin, unless it is there.
  void index(const Sample& sample);

 private:
  void give_up();

  JpegScanner scanner_;
  JpegPartFile file_;
  JpegDecoder decoder_;
  // The state of the last begin().
  Sample sample_;
  std::span<const JpegPoint> points_;
  JpegHeader header_;
};

}  // namespace autotuned::input
