// SPDX-License-Identifier: Apache-2.0
// Affine maps of a picture's pixels, computed as PIL does. Any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/input/common/sample.hpp"

namespace autotuned::input {

// The source of a pixel (x, y) of the result: (a x + b y + c, d x + e y + f), in PIL's order.
using Affine = std::array<double, 6>;

// PIL's Image.rotate around the middle of the picture: counter-clockwise, with the y axis down.
[[nodiscard]] Affine rotation(double degrees, const SampleShape& shape);

// PIL's Image.transform by the nearest pixel: the picture in the same size, with `fill`, a value per channel, where a
// pixel comes from outside. REQUIRES: `to` has the sample's size and does not overlap it.
void move_pixels(const Affine& source, const Sample& sample, const std::vector<float>& fill,
                 std::uint8_t* to);

}  // namespace autotuned::input
