// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/png_encoder.hpp"

#include <png.h>

namespace autotuned::input {

Result<std::string> encode_png(std::span<const std::uint8_t> numbers, int height, int width) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = PNG_FORMAT_GRAY;
  std::string file;
  png_alloc_size_t bytes = 0;
  // Once for the size and once for the bytes.
  for (int pass = 0; pass < 2; ++pass) {
    void* const room = pass == 0 ? nullptr : file.data();
    const int written =
        png_image_write_to_memory(&image, room, &bytes, /*convert_to_8_bit=*/0, numbers.data(),
                                  /*row_stride=*/0, nullptr);
    if (written == 0) {
      return fail(ErrorKind::internal,
                  std::string("the mask cannot be encoded (") + image.message + ")");
    }
    file.resize(bytes);
  }
  return file;
}

}  // namespace autotuned::input
