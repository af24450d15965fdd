// SPDX-License-Identifier: Apache-2.0
// Each transform against what PIL, torchvision and PyTorch make of the same bytes.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/pixels/mask.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAreArray;

struct Size {
  int height = 1;
  int width = 1;
};

Json size_of(const SampleShape& shape) {
  return {{"size", {shape.height, shape.width}}};
}

TEST(Resize, GivesTheBytesOfPil) {
  int compared = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!name.starts_with("resize_") || !facts.contains("source")) continue;
    SCOPED_TRACE(name);
    const Fixture expected = fixture(name);
    const Fixture source = fixture(facts["source"]);
    const Pipeline pipeline = pipeline_of(source.type(), {{"resize", size_of(expected.shape)}});
    EXPECT_EQ(pipeline.shape(), expected.shape);
    EXPECT_TRUE(run<std::uint8_t>(pipeline, source.sample()) == expected.bytes);
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

// The plain form of what PIL does, for sizes that no fixture has.
std::vector<std::uint8_t> resized_plainly(const std::vector<std::uint8_t>& from, int rows, int size,
                                          int stride, int step, int to) {
  std::vector<std::uint8_t> out;
  const double scale = static_cast<double>(size) / to;
  const double reach = std::max(scale, 1.0);
  for (int row = 0; row < rows; ++row) {
    for (int x = 0; x < to; ++x) {
      const double center = (x + 0.5) * scale;
      const int first = std::max(static_cast<int>(center - reach + 0.5), 0);
      const int last = std::min(static_cast<int>(center + reach + 0.5), size);
      std::vector<double> weights;
      double all = 0;
      for (int k = first; k < last; ++k) {
        weights.push_back(std::max(1.0 - std::abs((k - center + 0.5) * (1.0 / reach)), 0.0));
        all += weights.back();
      }
      std::int64_t sum = 1 << 21;
      for (int k = first; k < last; ++k) {
        const auto weight = static_cast<std::int32_t>(
            0.5 + weights[static_cast<std::size_t>(k - first)] / all * (1 << 22));
        sum += from[static_cast<std::size_t>(row * stride + k * step)] * std::int64_t{weight};
      }
      out.push_back(static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255)));
    }
  }
  return out;
}

// Columns, then rows, which come out on their side.
TEST(Resize, GivesTheBytesOfThePlainFormForAnySize) {
  const std::vector<std::pair<SampleShape, Size>> cases = {
      {{3, 32, 32}, {224, 224}}, {{1, 130, 7}, {9, 40}},    {{2, 5, 600}, {17, 31}},
      {{1, 300, 2}, {3, 500}},   {{3, 1, 1100}, {2, 1099}}, {{1, 17, 19}, {17, 5}},
      {{1, 19, 17}, {64, 17}},   {{1, 2000, 1}, {1, 1}},    {{4, 33, 65}, {16, 129}},
      {{1, 64, 64}, {63, 65}},   {{3, 129, 256}, {100, 64}}};
  std::uint64_t seed = 0;
  for (const auto& [shape, size] : cases) {
    SCOPED_TRACE(testing::Message() << shape.height << "x" << shape.width << " to " << size.height
                                    << "x" << size.width);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.elements()));
    ++seed;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint64_t noise = mix64(seed * 1'000'003 + i);
      bytes[i] = noise % 5 == 0 ? 255 : noise % 5 == 1 ? 0 : static_cast<std::uint8_t>(noise >> 8U);
    }
    const Pipeline pipeline = pipeline_of(type_of(Element::uint8, shape),
                                          {{"resize", {{"size", {size.height, size.width}}}}});
    const auto result = run<std::uint8_t>(pipeline, {Element::uint8, shape, bytes});
    const auto plane = static_cast<std::size_t>(size.height * size.width);
    for (int channel = 0; channel < shape.channels; ++channel) {
      const auto from = bytes.begin() + channel * shape.height * shape.width;
      const std::vector<std::uint8_t> one(from, from + shape.height * shape.width);
      const auto narrowed =
          resized_plainly(one, shape.height, shape.width, shape.width, 1, size.width);
      const auto turned =
          resized_plainly(narrowed, size.width, shape.height, 1, size.width, size.height);
      std::size_t wrong = 0;
      for (int y = 0; y < size.height; ++y) {
        for (int x = 0; x < size.width; ++x) {
          const std::uint8_t expected = turned[static_cast<std::size_t>(x * size.height + y)];
          const std::uint8_t found = result[static_cast<std::size_t>(channel) * plane +
                                            static_cast<std::size_t>(y * size.width + x)];
          wrong += found != expected ? 1 : 0;
        }
      }
      EXPECT_EQ(wrong, 0U) << "channel " << channel;
    }
  }
}

// torchvision: the shorter side becomes the size, the longer one size * longer / shorter, rounded down.
TEST(ResizeShorter, KeepsProportionsAsTorchvisionDoes) {
  struct Case {
    SampleShape from;
    Size least;
    SampleShape to;
  };
  const std::vector<Case> cases = {{{3, 37, 51}, {24, 24}, {3, 24, 33}},  // 24 * 51 / 37 = 33.08
                                   {{3, 51, 37}, {24, 24}, {3, 33, 24}},
                                   {{1, 8, 8}, {9, 9}, {1, 9, 9}},
                                   {{3, 10, 15}, {256, 256}, {3, 256, 384}},
                                   {{3, 40, 40}, {10, 20}, {3, 20, 20}},  // both sides are covered
                                   {{3, 20, 100}, {10, 20}, {3, 10, 50}},
                                   {{1, 3, 2}, {1, 1}, {1, 1, 1}}};
  std::uint64_t seed = 0;
  for (const auto& [from, least, to] : cases) {
    SCOPED_TRACE(testing::Message() << from.height << "x" << from.width);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(from.elements()));
    const RandomStream random(1, ++seed);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(random.at(i));
    const Pipeline shorter = pipeline_of(
        type_of(Element::uint8, from), {{"resize_shorter", {{"size", {least.height, least.width}}}},
                                        {"center_crop", size_of(to)}});
    const Pipeline plain = pipeline_of(type_of(Element::uint8, from), {{"resize", size_of(to)}});
    const Sample sample{Element::uint8, from, bytes};
    EXPECT_EQ(run<std::uint8_t>(shorter, sample), run<std::uint8_t>(plain, sample));
  }
}

// If pictures have several sizes, it knows their least size, so that a crop can follow.
TEST(ResizeShorter, LeavesRoomForACrop) {
  SampleType type = type_of(Element::uint8, {3, 10, 20});
  type.height.most = 40;
  type.is_complete = false;
  const auto compiled = [&](int size) {
    return Pipeline::compile(type,
                             std::vector<Transform>{{"resize_shorter", {{"size", 32}}},
                                                    {"center_crop", {{"size", size}}}},
                             1);
  };
  EXPECT_TRUE(compiled(32));
  ASSERT_FALSE(compiled(33));
  EXPECT_THAT(compiled(33).error().message(),
              testing::HasSubstr("a crop of 33 x 33 pixels does not fit"));
}

TEST(CenterCrop, CutsWhereTorchvisionDoes) {
  const Fixture source = fixture("numbers_source");
  for (const char* name : {"center_10x9", "center_11x8"}) {
    const Fixture expected = fixture(name);
    const Pipeline pipeline =
        pipeline_of(source.type(), {{"center_crop", size_of(expected.shape)}});
    EXPECT_THAT(run<std::uint8_t>(pipeline, source.sample()), ElementsAreArray(expected.bytes));
  }
}

// It cuts the same pixels out of floats.
TEST(Crop, TakesFloatsToo) {
  const Fixture source = fixture("numbers_source");
  const std::vector<Transform> crop_first = {{"random_crop", {{"size", 7}}}, {"to_float"}};
  const std::vector<Transform> crop_last = {{"to_float"}, {"random_crop", {{"size", 7}}}};
  const auto first = run<float>(pipeline_of(source.type(), crop_first), source.sample());
  const auto last = run<float>(pipeline_of(source.type(), crop_last), source.sample());
  EXPECT_EQ(first, last);
}

TEST(RandomCrop, ReachesEveryOffsetAndNoOther) {
  std::vector<std::uint8_t> bytes(6 * 5);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i);
  const SampleShape shape{1, 6, 5};
  const Pipeline pipeline =
      pipeline_of(type_of(Element::uint8, shape), {{"random_crop", {{"size", {4, 3}}}}});
  std::vector<int> seen(bytes.size());
  for (std::int64_t i = 0; i < 9000; ++i) {
    const auto cut = run<std::uint8_t>(pipeline, {Element::uint8, shape, bytes}, {0, i});
    ++seen[cut[0]];
    EXPECT_EQ(cut[11], cut[0] + 3 * 5 + 2);
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const bool is_possible = i / 5 <= 2 && i % 5 <= 2;
    EXPECT_NEAR(seen[i], is_possible ? 1000 : 0, is_possible ? 150 : 0) << i;
  }
}

TEST(ToFloatAndNormalize, GiveTheBitsOfTorchvision) {
  const Fixture source = fixture("numbers_source");
  const Transform normalize{"normalize",
                            {{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}};
  EXPECT_EQ(run<float>(pipeline_of(source.type(), {{"to_float"}}), source.sample()),
            fixture("to_float").floats());
  EXPECT_EQ(run<float>(pipeline_of(source.type(), {{"to_float"}, normalize}), source.sample()),
            fixture("normalized").floats());
  // By arithmetic instead of by a table.
  const Fixture floats = fixture("to_float");
  EXPECT_EQ(run<float>(pipeline_of(floats.type(), {normalize}), floats.sample()),
            fixture("normalized").floats());
}

// A matrix product fuses multiplications with additions, so that the last bits may differ.
TEST(RgbToYuv, IsTheMatrixProductOfPyTorch) {
  const Fixture source = fixture("numbers_source");
  const std::vector<float> expected = fixture("yuv").floats();
  const auto yuv = run<float>(pipeline_of(source.type(), {{"rgb_to_yuv"}}), source.sample());
  ASSERT_EQ(yuv.size(), expected.size());
  for (std::size_t i = 0; i < yuv.size(); ++i)
    EXPECT_NEAR(yuv[i], expected[i], 4e-5F) << i;

  // Floats give the same, and what follows sees the scale of 0 to 255.
  const Pipeline of_floats =
      pipeline_of(source.type(), {{"scale", {{"by", 1}}}, {"rgb_to_yuv"}, {"scale", {{"by", 2}}}});
  const auto doubled = run<float>(of_floats, source.sample());
  for (std::size_t i = 0; i < yuv.size(); ++i)
    EXPECT_EQ(doubled[i], 2 * yuv[i]) << i;
}

TEST(Mask, DilatesAsAConvolutionWithACross) {
  int compared = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!name.starts_with("dilated_")) continue;
    SCOPED_TRACE(name);
    const Fixture expected = fixture(name);
    const Fixture source = fixture(facts["source"]);
    Mask mask;
    for (const Dilation how : {Dilation::convolution, Dilation::shifts, Dilation::bits}) {
      SCOPED_TRACE(static_cast<int>(how));
      mask.reshape(source.shape.height, source.shape.width);
      for (int cell = 0; cell < source.shape.height * source.shape.width; ++cell) {
        if (source.bytes[static_cast<std::size_t>(cell)] != 0) {
          mask.set(cell / source.shape.width, cell % source.shape.width);
        }
      }
      mask.dilate(how);
      std::vector<std::uint8_t> dilated;
      for (int row = 0; row < mask.height(); ++row) {
        for (int column = 0; column < mask.width(); ++column)
          dilated.push_back(mask.contains(row, column) ? 1 : 0);
      }
      EXPECT_THAT(dilated, ElementsAreArray(expected.bytes));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 12);
}

// Every word of it, so that bits beyond the width are seen as well.
TEST(Mask, DilatesAlikeInAllWaysWhateverTheSize) {
  const auto words_of = [](Mask& mask, Dilation how, int height, int width, std::uint32_t parts) {
    mask.reshape(height, width);
    mask.draw(parts, RandomStream(11, static_cast<std::uint64_t>(width)));
    mask.dilate(how);
    return std::vector<std::uint64_t>(mask.row_of(0), mask.row_of(height));
  };
  std::array<Mask, 3> masks;  // used again and again, as a thread does
  for (const int height : {1, 2, 3, 17, 64}) {
    for (int width = 1; width <= 130; ++width) {
      for (const std::uint32_t parts : {2048U, 16384U, 65536U}) {
        SCOPED_TRACE(testing::Message() << height << " x " << width << ", " << parts);
        const auto bits = words_of(masks[0], Dilation::bits, height, width, parts);
        EXPECT_EQ(words_of(masks[1], Dilation::convolution, height, width, parts), bits);
        EXPECT_EQ(words_of(masks[2], Dilation::shifts, height, width, parts), bits);
      }
    }
  }
}

TEST(Mask, DrawsAsManyCellsAsAsked) {
  for (const std::uint32_t parts : {0U, 1U, 6554U, 16384U, 32768U, 65535U, 65536U}) {
    Mask mask;
    mask.reshape(256, 250);
    std::int64_t count = 0;
    for (std::uint64_t i = 0; i < 16; ++i) {
      mask.draw(parts, RandomStream(7, i));
      for (int row = 0; row < 256; ++row) {
        for (int column = 0; column < 250; ++column)
          count += mask.contains(row, column) ? 1 : 0;
      }
    }
    const double cells = 16 * 256 * 250;
    const double ratio = parts / 65536.0;
    const double deviation = std::sqrt(cells * ratio * (1 - ratio));
    EXPECT_NEAR(static_cast<double>(count), cells * ratio, 5 * deviation) << parts;
  }
}

// The digits of the ratio, from the lowest that is set: see Mask::draw.
TEST(Mask, DrawsWordsAsDocumented) {
  const RandomStream draws(3, 4);
  Mask mask;
  mask.reshape(2, 70);
  mask.draw(0b0110'0000'0000'0000, draws);
  std::uint64_t next = 0;
  for (int row = 0; row < 2; ++row) {
    for (std::size_t word = 0; word < 2; ++word) {
      const std::uint64_t lowest = draws.at(next);
      const std::uint64_t expected = (lowest | draws.at(next + 1)) & draws.at(next + 2);
      next += 3;
      EXPECT_EQ(mask.row_of(row)[word], word == 0 ? expected : expected & 0x3fU);
    }
  }
}

TEST(RandomMask, ClearsTheSamePixelsInAllChannelsOfBytesAndFloats) {
  const SampleShape shape{3, 20, 70};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.elements()), 9);
  const Sample sample{Element::uint8, shape, bytes};
  const Transform mask{"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}};
  const Pipeline pipeline = pipeline_of(type_of(Element::uint8, shape), {mask});
  const auto masked = run<std::uint8_t>(pipeline, sample);
  const auto floats = run<float>(
      pipeline_of(type_of(Element::uint8, shape), {{"scale", {{"by", 1}}}, mask}), sample);
  const std::size_t plane = 20 * 70;
  std::size_t cleared = 0;
  for (std::size_t i = 0; i < masked.size(); ++i) {
    EXPECT_TRUE(masked[i] == 0 || masked[i] == 9);
    EXPECT_EQ(masked[i], masked[i % plane]);
    EXPECT_EQ(floats[i], static_cast<float>(masked[i]));
    cleared += masked[i] == 0 ? 1 : 0;
  }
  // 1 - 0.75^5 of the inner ones.
  EXPECT_NEAR(static_cast<double>(cleared) / static_cast<double>(masked.size()), 0.76, 0.05);
  EXPECT_NE(run<std::uint8_t>(pipeline, sample, {0, 1}), masked);
}

}  // namespace
}  // namespace autotuned::input
