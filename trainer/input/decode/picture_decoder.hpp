// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG and PNG files.
#pragma once

#include "trainer/input/decode/jpeg_decoder.hpp"
#include "trainer/input/decode/png_decoder.hpp"

namespace autotuned::input {

// PNG if a file begins as one, otherwise JPEG (see both decoders). One thread at a time.
class PictureDecoder {
 public:
  [[nodiscard]] Result<SampleShape> begin(std::span<const std::uint8_t> file) {
    is_png_ = is_png(file);
    if (is_png_) return png_.begin(file);
    // The first two bytes of every JPEG file. An empty or cut file is left to the decoder, which says so.
    if (file.size() >= 2 && (file[0] != 0xFF || file[1] != 0xD8)) {
      return fail(ErrorKind::corrupt, "is neither a JPEG nor a PNG file", {},
                  "give JPEG and PNG files only, or convert it");
    }
    return jpeg_.begin(file);
  }
  [[nodiscard]] bool can_shrink() const { return !is_png_; }
  // REQUIRES: can_shrink().
  SampleShape shrink(int by) { return jpeg_.shrink(by); }
  [[nodiscard]] Result<void> decode(std::uint8_t* out) {
    return is_png_ ? png_.decode(out) : jpeg_.decode(out);
  }
  [[nodiscard]] Result<void> decode_part(const Window& part, std::uint8_t* out,
                                         Remainder remainder = Remainder::left) {
    return is_png_ ? png_.decode_part(part, out, remainder)
                   : jpeg_.decode_part(part, out, remainder);
  }

 private:
  JpegDecoder jpeg_;
  PngDecoder png_;
  bool is_png_ = false;
};

}  // namespace autotuned::input
