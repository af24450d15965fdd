// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG files. The only unit that includes libjpeg, with jpeg_memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::input {

// Decodes as PIL does: the accurate integer transform, smooth upsampling of colour, grey pictures as
// RGB, no rotation by EXIF orientation. Baseline and progressive files; CMYK is refused
// (ErrorKind::unsupported). A damaged or cut file is ErrorKind::corrupt, even if a part of it
// could be decoded. Errors lack `where`.
//
// Keep a decoder for many pictures: it reuses its memory (PictureMemory). One thread at a time.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header: the shape of the picture, 3 x height x width. `file` may be the beginning of a
  // file as long as that holds the header, and must stay valid until decode().
  [[nodiscard]] Result<SampleShape> begin(std::span<const std::uint8_t> file);

  [[nodiscard]] bool can_shrink() const { return true; }
  // Makes the picture of the last begin() 1/by as high and wide, rounded up, as libjpeg does: from fewer coefficients,
  // in less time. Returns its shape; parts then count in pixels of the smaller picture. REQUIRES: begin() succeeded
  // and nothing was decoded since; by is 1, 2, 4 or 8.
  SampleShape shrink(int by);

  // Writes the picture of the last begin(): channel, row, column. REQUIRES: begin() was successful
  // and is used once; `out` has room for its shape.
  [[nodiscard]] Result<void> decode(std::uint8_t* out);

  // Writes a part of it: the same bytes as decode() gives there. In baseline files with the usual samplings, blocks
  // outside the part's columns are not decoded. With Remainder::left, the rows below the part are not read, except in
  // files of several scans.
  // REQUIRES: as decode(); the part lies within the picture.
  [[nodiscard]] Result<void> decode_part(const Window& part, std::uint8_t* out,
                                         Remainder remainder = Remainder::left);
  // The same for a picture that begins with that column, the first of an MCU (JpegPartFile). REQUIRES: the part does
  // not begin before it, and its columns can be decoded alone.
  [[nodiscard]] Result<void> decode_part_from(int first_column, const Window& part,
                                              std::uint8_t* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
