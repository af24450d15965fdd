// SPDX-License-Identifier: Apache-2.0
// Assembles a JPEG file of a part of another file's picture, without decoding that file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "trainer/input/common/sample.hpp"
#include "trainer/input/jpeg_index/jpeg_header.hpp"
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

namespace autotuned::input {

// Whether the file's tables have codes for the MCUs that a JpegPartFile adds to rows, or room for such codes.
[[nodiscard]] bool can_make_parts(const JpegHeader& header);

// Holds the rows of MCUs that a part needs, each from the last point before its columns on. A row begins with an added
// MCU that sets the DC values of that point; it has as many coefficients as it takes for the next bit to have the same
// position in its byte as in the file, so that the rest of the row is a plain copy.
//
// Keep one for many pictures: it reuses its memory. One thread at a time.
class JpegPartFile {
 public:
  JpegPartFile();
  ~JpegPartFile();
  JpegPartFile(const JpegPartFile&) = delete;
  JpegPartFile& operator=(const JpegPartFile&) = delete;

  // False: the points cannot belong to this file. Not all wrong points are noticed; they give another picture or a
  // damaged file. REQUIRES: `header` is that of `file`; the part lies within the picture.
  [[nodiscard]] bool make(const JpegHeader& header, std::span<const std::uint8_t> file,
                          std::span<const JpegPoint> points, const Window& part);

  // Valid until the next make(). Additional bytes follow the picture, because libjpeg is faster if it can read beyond
  // the end.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const;
  // The part in the new picture, which has the same pixels there and the neighbours that the colours of its edges need.
  [[nodiscard]] const Window& part() const;
  // The first column that belongs to the picture.
  [[nodiscard]] int first_column() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
