// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/png_encoder.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "trainer/input/decode/png_decoder.hpp"

namespace autotuned::input {
namespace {

TEST(PngEncoder, WritesNumbersThatTheDecoderReadsBack) {
  for (const auto& [height, width] : {std::pair{1, 1}, std::pair{3, 256}, std::pair{37, 51}}) {
    std::vector<std::uint8_t> numbers(static_cast<std::size_t>(height) *
                                      static_cast<std::size_t>(width));
    std::iota(numbers.begin(), numbers.end(),
              std::uint8_t{250});  // all of them, 255 and 0 included
    const auto file = encode_png(numbers, height, width);
    ASSERT_TRUE(file) << file.error().message();
    const std::vector<std::uint8_t> bytes(file->begin(), file->end());
    PngDecoder decoder(PngPixels::numbers);
    const auto shape = decoder.begin(bytes);
    ASSERT_TRUE(shape) << shape.error().message();
    EXPECT_EQ(*shape, (SampleShape{1, height, width}));
    std::vector<std::uint8_t> read(numbers.size());
    ASSERT_TRUE(decoder.decode(read.data()));
    EXPECT_EQ(read, numbers);
  }
}

}  // namespace
}  // namespace autotuned::input
