// SPDX-License-Identifier: Apache-2.0
// A JPEG file of a part of another's picture, made without decoding that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "trainer/input/common/sample.hpp"
#include "trainer/input/jpeg_index/jpeg_header.hpp"
#include "trainer/input/jpeg_index/jpeg_scan.hpp"

namespace autotuned::input {

// Whether the file's tables have codes for what a JpegPartFile puts at the beginning of rows, or room for them.
[[nodiscard]] bool can_make_parts(const JpegHeader& header);

// The rows of MCUs that a part needs, each from the last point before its columns on. A row begins with an MCU
// of its own making that brings the DC values to where they were; its coefficients are as many as it takes
// for the next bit to stand at the same place in its byte as in the file, so that the rest is a copy.
//
// Kept between pictures; one thread at a time.
class JpegPartFile {
 public:
  JpegPartFile();
  ~JpegPartFile();
  JpegPartFile(const JpegPartFile&) = delete;
  JpegPartFile& operator=(const JpegPartFile&) = delete;

  // False where the points cannot be those of this file, as far as that shows: what is made of wrong ones is
  // some picture or a damaged file. REQUIRES: `header` is that of `file`; the part lies within the picture.
  [[nodiscard]] bool make(const JpegHeader& header, std::span<const std::uint8_t> file,
                          std::span<const JpegPoint> points, const Window& part);

  // Valid until the next make(). More bytes follow the picture than a file would have: with room behind the end
  // libjpeg takes its faster way.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const;
  // Of the new picture, which shows the same. It has the neighbours that the colours of the edges need.
  [[nodiscard]] const Window& part() const;
  // Columns before this one are not of the picture.
  [[nodiscard]] int first_column() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
