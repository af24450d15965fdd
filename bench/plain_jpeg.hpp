// SPDX-License-Identifier: Apache-2.0
// What libjpeg alone takes for a part of a picture: the limit of a decoder that is built on it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/input/common/sample.hpp"

namespace autotuned::bench {

// Makes the pixels of `part`, row after row in the same place `row`, and nothing of the rows below. A file that
// is damaged ends the program.
void decode_plainly(std::span<const std::uint8_t> file, const input::Window& part,
                    std::vector<std::uint8_t>& row);

}  // namespace autotuned::bench
