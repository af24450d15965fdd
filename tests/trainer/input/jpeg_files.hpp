// SPDX-License-Identifier: Apache-2.0
// JPEG files of every kind, made here, and parts of their pictures.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "trainer/input/common/random.hpp"
#include "trainer/input/common/sample.hpp"

namespace autotuned::input {

enum class JpegContent {
  waves,      // under noise: every block has high and low frequencies, every neighbour differs
  smooth,     // slow slopes: hardly a code but those of DC values
  flat,       // one colour
  saturated,  // squares of the darkest and the brightest
};

struct JpegFile {
  int height = 1;
  int width = 1;
  int quality = 90;
  int across = 1;  // luminance samples to one of colour
  int down = 1;
  bool is_grey = false;
  bool is_progressive = false;
  int restart_rows = 0;
  bool has_own_codes = false;  // made for the picture
  int noise = 90;
  JpegContent content = JpegContent::waves;
  std::uint64_t seed = 0;  // another picture of that kind

  [[nodiscard]] std::string text() const {
    return std::to_string(height) + " x " + std::to_string(width) + " quality " +
           std::to_string(quality) + " sampling " + std::to_string(across) + "x" +
           std::to_string(down) + (is_grey ? " grey" : "") +
           (is_progressive ? " progressive" : "") + " restarts " + std::to_string(restart_rows) +
           (has_own_codes ? " own codes" : "") + " noise " + std::to_string(noise) + " content " +
           std::to_string(static_cast<int>(content)) + " seed " + std::to_string(seed);
  }
};

// Byte `i` of row `y`, between whose pixels lie `components` bytes.
inline std::uint8_t byte_of(const JpegFile& file, int y, std::size_t i, std::size_t components) {
  const std::uint64_t seed = file.seed == 0 ? 0 : mix64(file.seed);
  const auto part_of_seed = [&](std::size_t which) {
    return static_cast<double>(mix64(seed + which + 1) % 1000) / 1000;
  };
  const std::size_t x = i / components;
  const std::size_t component = i % components;
  double value = 0;
  switch (file.content) {
    case JpegContent::waves: {
      const double wave = 60 * std::sin(0.13 * y + 0.29 * static_cast<double>(i % 97) +
                                        7 * (seed == 0 ? 0 : part_of_seed(0))) +
                          128;
      const auto noise = mix64(seed + static_cast<std::uint64_t>(y) * 100'003 + i) %
                         static_cast<std::uint64_t>(file.noise);
      value = wave + static_cast<double>(noise) - file.noise / 2.0;
      break;
    }
    case JpegContent::smooth:
      value = 255 * part_of_seed(component) +
              (100 * part_of_seed(component + 4) - 50) * y / file.height +
              (100 * part_of_seed(component + 8) - 50) * static_cast<double>(x) / file.width;
      break;
    case JpegContent::flat:
      value = 255 * part_of_seed(component);
      break;
    case JpegContent::saturated:
      value =
          mix64(seed + static_cast<std::uint64_t>(y / 5) * 100'003 + x / 5 * 3 + component) % 2 == 0
              ? 0
              : 255;
      break;
  }
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
}

inline std::vector<std::uint8_t> encoded(const JpegFile& file) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = static_cast<JDIMENSION>(file.height);
  info.image_width = static_cast<JDIMENSION>(file.width);
  info.input_components = file.is_grey ? 1 : 3;
  info.in_color_space = file.is_grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, file.quality, TRUE);
  info.comp_info[0].h_samp_factor = file.across;
  info.comp_info[0].v_samp_factor = file.down;
  info.restart_in_rows = file.restart_rows;
  info.optimize_coding = file.has_own_codes ? TRUE : FALSE;
  if (file.is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const auto components = static_cast<std::size_t>(info.input_components);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(file.width) * components);
  for (int y = 0; y < file.height; ++y) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = byte_of(file, y, i, components);
    JSAMPROW line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<std::uint8_t> bytes(memory, memory + size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

// At every corner and edge, and anywhere; of sizes from one pixel to the whole, which is the last.
inline std::vector<Window> parts_of(const SampleShape& shape, int count, std::uint64_t seed) {
  const RandomStream random(seed, 0);
  std::uint64_t drawn = 0;
  const auto draw = [&](int bound) {
    return static_cast<int>(below(random.at(drawn++), static_cast<std::uint64_t>(bound)));
  };
  std::vector<Window> parts;
  for (int i = 0; i < count; ++i) {
    Window part;
    part.height = i % 5 == 0 ? 1 : 1 + draw(shape.height);
    part.width = i % 7 == 0 ? 1 : 1 + draw(shape.width);
    const int down = shape.height - part.height;
    const int right = shape.width - part.width;
    part.top = i % 9 / 3 == 0 ? 0 : i % 9 / 3 == 1 ? down : draw(down + 1);
    part.left = i % 3 == 0 ? 0 : i % 3 == 1 ? right : draw(right + 1);
    parts.push_back(part);
  }
  parts.push_back({0, 0, shape.height, shape.width});
  return parts;
}

}  // namespace autotuned::input
