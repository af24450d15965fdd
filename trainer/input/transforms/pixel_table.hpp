// SPDX-License-Identifier: Apache-2.0
// Converts stored bytes to the model's floats: one table of 256 values per channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// The float of each byte. A loader thread on the host and the trainer after a `uint8` transfer use the same table, so
// both give the same bits.
struct PixelTable {
  int channels = 0;
  std::vector<float> values;  // channels x 256

  [[nodiscard]] std::span<const float, 256> channel(int index) const {
    return std::span<const float, 256>(
        values.data() + std::size_t{256} * static_cast<unsigned>(index), 256);
  }
};

// The type in which pixels of a batch are transferred.
enum class PixelType {
  uint8,    // as bytes; the caller converts, with the same PixelTable
  float32,  // converted when the batch is filled
};

[[nodiscard]] constexpr std::size_t bytes_of(PixelType type) {
  return type == PixelType::uint8 ? 1 : sizeof(float);
}

// The table of these point-wise transforms (see PointOperation), applied in this order to
// v = float(byte). Without transforms it holds 0.0f .. 255.0f.
// ErrorKind::invalid: a parameter cannot be used, or some byte becomes infinite.
// ErrorKind::unsupported: a transform that is not point-wise.
[[nodiscard]] Result<PixelTable> make_pixel_table(std::span<const Transform> transforms,
                                                  int channels);

// Converts one sample (channel, row, column). REQUIRES: bytes.size() is a multiple of
// table.channels, and `out` holds as many floats.
void convert_sample(const PixelTable& table, std::span<const std::uint8_t> bytes, float* out);
// Converts numbers of one channel. REQUIRES: 0 <= channel < table.channels.
void convert_channel(const PixelTable& table, int channel, std::span<const std::uint8_t> bytes,
                     float* out);

}  // namespace autotuned::input
