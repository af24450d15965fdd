// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/pixel_table.hpp"

#include <cassert>
#include <cmath>

#include "trainer/input/point_wise.hpp"

namespace autotuned::input {
namespace {

constexpr std::size_t kBytes = 256;

}  // namespace

Result<PixelTable> make_pixel_table(std::span<const Transform> transforms, int channels) {
  assert(channels >= 1);
  PixelTable table{channels, std::vector<float>(kBytes * static_cast<std::size_t>(channels))};
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    table.values[i] = static_cast<float>(i % kBytes);
  }
  for (const Transform& transform : transforms) {
    const auto operation = PointOperation::create(transform, channels);
    if (!operation) return tl::unexpected(operation.error());
    for (int c = 0; c < channels; ++c) {
      operation->apply(table.values.data() + kBytes * static_cast<std::size_t>(c), kBytes, c);
    }
  }
  for (const float value : table.values) {
    if (!std::isfinite(value)) {
      return fail(ErrorKind::invalid, "the transforms take some byte to infinity", "input",
                  "use smaller factors, or a larger `std`");
    }
  }
  return table;
}

void convert_channel(const PixelTable& table, int channel, std::span<const std::uint8_t> bytes,
                     float* out) {
  const float* const values = table.channel(channel).data();
  const std::uint8_t* const from = bytes.data();
  // Four at a time because loads may not move over stores that could change the table: twice the
  // speed of the plain loop, and as fast as exact arithmetic in vector registers.
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    const float v0 = values[from[i]];
    const float v1 = values[from[i + 1]];
    const float v2 = values[from[i + 2]];
    const float v3 = values[from[i + 3]];
    out[i] = v0;
    out[i + 1] = v1;
    out[i + 2] = v2;
    out[i + 3] = v3;
  }
  for (; i < bytes.size(); ++i)
    out[i] = values[from[i]];
}

void convert_sample(const PixelTable& table, std::span<const std::uint8_t> bytes, float* out) {
  const std::size_t count = bytes.size() / static_cast<std::size_t>(table.channels);
  for (int c = 0; c < table.channels; ++c) {
    const std::size_t at = static_cast<std::size_t>(c) * count;
    convert_channel(table, c, bytes.subspan(at, count), out + at);
  }
}

}  // namespace autotuned::input
