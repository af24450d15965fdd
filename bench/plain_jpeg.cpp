// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_jpeg.hpp"

// jpeglib.h does not include what it needs.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

namespace autotuned::bench {

void decode_plainly(std::span<const std::uint8_t> file, const input::Window& part,
                    std::vector<std::uint8_t>& row) {
  constexpr std::size_t kPixelBytes = 4;
  jpeg_error_mgr errors{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_EXT_RGBX;
  jpeg_start_decompress(&info);
  row.resize(info.output_width * kPixelBytes);
  auto left = static_cast<JDIMENSION>(part.left);
  auto width = static_cast<JDIMENSION>(part.width);
  if (width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
  if (part.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(part.top));
  JSAMPROW line = row.data();
  for (int y = 0; y < part.height; ++y)
    jpeg_read_scanlines(&info, &line, 1);
  jpeg_abort_decompress(&info);
  jpeg_destroy_decompress(&info);
}

}  // namespace autotuned::bench
