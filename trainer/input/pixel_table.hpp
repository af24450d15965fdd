// SPDX-License-Identifier: Apache-2.0
// From stored bytes to the numbers that the model sees: one table of 256 values per channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::input {

// A per-sample transform as the recipe names it. Known here:
//   scale      by: a number, or text such as "1/255"
//   normalize  mean, std: a number for all channels, or a list with one per channel
struct Transform {
  std::string type;
  Json parameters = Json::object();
};

// What a byte becomes. Whoever converts, a loader thread on the host or the trainer behind a `uint8`
// transfer, looks up this table, so both give the same bits.
struct PixelTable {
  int channels = 0;
  std::vector<float> values;  // channels x 256

  [[nodiscard]] std::span<const float, 256> channel(int index) const {
    return std::span<const float, 256>(
        values.data() + std::size_t{256} * static_cast<unsigned>(index), 256);
  }
};

// The table of these transforms, applied in this order to v = float(byte):
//   scale:     v = float(double(v) * by)             one rounding; by = 1/255 gives PyTorch's v / 255
//   normalize: v = (v - float(mean)) / float(std)    two roundings, as torchvision's Normalize
// Without transforms the table holds 0.0f .. 255.0f.
// ErrorKind::invalid: a parameter is missing, not finite, zero where it divides, or its list has
// another length than there are channels. ErrorKind::unsupported: a transform not known here.
[[nodiscard]] Result<PixelTable> make_pixel_table(std::span<const Transform> transforms,
                                                  int channels);

// Converts one sample (channel, row, column). REQUIRES: bytes.size() is a multiple of
// table.channels, and `out` holds as many floats.
void convert_sample(const PixelTable& table, std::span<const std::uint8_t> bytes, float* out);

}  // namespace autotuned::input
