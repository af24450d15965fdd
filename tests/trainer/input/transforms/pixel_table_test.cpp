// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pixel_table.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <string>
#include <vector>

#include "tests/golden.hpp"

namespace autotuned::input {
namespace {

Transform scale(Json by) {
  return {"scale", Json{{"by", std::move(by)}}};
}
Transform normalize(Json mean, Json std) {
  return {"normalize", Json{{"mean", std::move(mean)}, {"std", std::move(std)}}};
}

PixelTable table_of(const std::vector<Transform>& transforms, int channels) {
  auto table = make_pixel_table(transforms, channels);
  EXPECT_TRUE(table) << (table ? "" : table.error().message());
  return table ? *table : PixelTable{};
}

TEST(PixelTable, IsTheByteItselfWithoutTransforms) {
  const PixelTable table = table_of({}, 2);
  for (int channel = 0; channel < 2; ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      EXPECT_EQ(table.channel(channel)[byte], static_cast<float>(byte));
    }
  }
}

// PyTorch's ToTensor divides by 255; multiplying by the rounded reciprocal differs for 126 bytes.
TEST(PixelTable, ScalingByOne255thIsTheDivision) {
  for (const Json& by : {Json(1.0 / 255), Json("1/255")}) {
    const PixelTable table = table_of({scale(by)}, 1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(table.values[byte]),
                std::bit_cast<std::uint32_t>(static_cast<float>(byte) / 255.0F))
          << byte;
    }
  }
}

TEST(PixelTable, NormalizesEveryChannelInFloat) {
  const PixelTable table =
      table_of({scale(1.0 / 255), normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})}, 3);
  const float mean[] = {0.485F, 0.456F, 0.406F};
  const float std[] = {0.229F, 0.224F, 0.225F};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const float difference = static_cast<float>(byte) / 255.0F - mean[channel];
      EXPECT_EQ(table.channel(static_cast<int>(channel))[byte], difference / std[channel]);
    }
  }
}

TEST(PixelTable, OneNumberCountsForAllChannelsAndOrderMatters) {
  const PixelTable table = table_of({normalize(128, 2), scale(4)}, 2);
  EXPECT_EQ(table.channel(0)[0], -256.0F);
  EXPECT_EQ(table.channel(1)[129], 2.0F);
  const PixelTable other = table_of({scale(4), normalize(128, 2)}, 1);
  EXPECT_EQ(other.values[0], -64.0F);
}

TEST(PixelTable, ConvertsEveryByteAtEveryLength) {
  const PixelTable table = table_of({scale(1.0 / 255), normalize({0.1, 0.2}, {0.3, 0.4})}, 2);
  for (std::size_t length = 0; length <= 260; ++length) {
    std::vector<std::uint8_t> bytes(2 * length);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(i * 7);
    std::vector<float> out(bytes.size() + 1, -1.0F);
    convert_sample(table, bytes, out.data());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(out[i], table.channel(i < length ? 0 : 1)[bytes[i]]) << length << " " << i;
    }
    EXPECT_EQ(out.back(), -1.0F);
  }
}

TEST(PixelTable, RefusesWhatItCannotCompute) {
  const auto error_of = [](const Transform& transform, int channels) {
    const auto table = make_pixel_table(std::vector{transform}, channels);
    return table ? Error{} : table.error();
  };
  EXPECT_EQ(error_of({"blur"}, 1).kind, ErrorKind::unsupported);
  tests::Cases cases;
  cases.add("blur", error_of({"blur"}, 1).what);
  cases.add("scale by nothing", error_of({"scale"}, 1).what);
  for (const char* text : {"", "/", "1/", "/255", "1/0", "one", "1/255 ", "nan", "inf"}) {
    EXPECT_EQ(error_of(scale(text), 1).kind, ErrorKind::invalid) << text;
  }
  cases.add("scale by 1e300", error_of(scale(1e300), 1).what);
  cases.add("two means of three channels", error_of(normalize({1, 2}, 1), 3).what);
  cases.add("a deviation of zero", error_of(normalize(1, {1, 0, 1}), 3).what);
  cases.add("text for a mean", error_of(normalize("x", 1), 1).what);
  cases.add("a deviation of 1e300", error_of(normalize(1, 1e300), 1).what);
  tests::expect_golden("trainer/input/transforms/golden/pixel_table.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::input
