// SPDX-License-Identifier: Apache-2.0
// pad, random_rotation and random_erasing against what torchvision does with the same parameters, written plainly.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden.hpp"
#include "tests/trainer/input/transforms/applied.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAreArray;

// --- pad ------------------------------------------------------------------------------------------

struct Padded {
  std::string mode;
  std::vector<int> pixels;
};

TEST(Pad, HasTheMarginsOfTorchvision) {
  const SampleShape shape{1, 2, 3};
  const std::vector<Padded> cases = {{"constant",
                                      {9, 9, 9, 9, 9, 9,  //
                                       9, 9, 1, 2, 3, 9,  //
                                       9, 9, 4, 5, 6, 9}},
                                     {"edge",
                                      {1, 1, 1, 2, 3, 3,  //
                                       1, 1, 1, 2, 3, 3,  //
                                       4, 4, 4, 5, 6, 6}},
                                     {"reflect",
                                      {6, 5, 4, 5, 6, 5,  //
                                       3, 2, 1, 2, 3, 2,  //
                                       6, 5, 4, 5, 6, 5}},
                                     {"symmetric",
                                      {2, 1, 1, 2, 3, 3,  //
                                       2, 1, 1, 2, 3, 3,  //
                                       5, 4, 4, 5, 6, 6}}};
  for (const Padded& one : cases) {
    SCOPED_TRACE(one.mode);
    const Transform pad{"pad", {{"by", {2, 1, 1, 0}}, {"mode", one.mode}, {"fill", 9}}};
    EXPECT_THAT(applied(pad, shape, numbered<std::uint8_t>(shape)), ElementsAreArray(one.pixels));
    EXPECT_THAT(applied(pad, shape, numbered<float>(shape)), ElementsAreArray(one.pixels));
  }
}

TEST(Pad, FillsEachChannelWithItsValue) {
  const SampleShape shape{2, 1, 1};
  const Transform pad{"pad", {{"by", 1}, {"fill", {7, 8}}}};
  EXPECT_THAT(applied(pad, shape, std::vector<std::uint8_t>{1, 2}),
              ElementsAreArray({7, 7, 7, 7, 1, 7, 7, 7, 7, 8, 8, 8, 8, 2, 8, 8, 8, 8}));
}

// As pictures of 32 x 32 are moved at random; the evaluation sees them where they are.
TEST(Pad, MovesAPictureTogetherWithACrop) {
  const Fixture source = fixture("jitter_source");
  const SampleShape& shape = source.shape;
  const Json size = {shape.height, shape.width};
  const Pipeline moved =
      pipeline_of(source.type(), {{"pad", {{"by", 4}}}, {"random_crop", {{"size", size}}}});
  EXPECT_EQ(moved.shape(), shape);
  std::set<std::vector<std::uint8_t>> results;
  for (std::int64_t i = 0; i < 50; ++i)
    results.insert(run<std::uint8_t>(moved, source.sample(), {0, i}));
  EXPECT_GT(results.size(), 25U);
  const Pipeline still =
      pipeline_of(source.type(), {{"pad", {{"by", 4}}}, {"center_crop", {{"size", size}}}});
  EXPECT_EQ(run<std::uint8_t>(still, source.sample()), source.bytes);
}

TEST(Pad, MirrorsNoMoreThanThereIs) {
  const SampleType pixels = type_of(Element::uint8, {3, 4, 5});
  EXPECT_EQ(problem({"pad", {{"by", 1}, {"fill", -0.5}}}, type_of(Element::float32, {3, 4, 5})),
            "");
  EXPECT_EQ(problem({"pad", {{"by", 3}, {"mode", "reflect"}}}, pixels), "");
  EXPECT_EQ(problem({"pad", {{"by", 4}, {"mode", "symmetric"}}}, pixels), "");
}

TEST(Affine, RefusesWhatItCannotDo) {
  tests::Cases cases;
  for (const Transform& transform :
       {Transform{"pad"}, Transform{"pad", {{"by", {1, 2}}}},
        Transform{"pad", {{"by", 1}, {"mode", "wrap"}}},
        Transform{"pad", {{"by", 1}, {"fill", {1, 2}}}},
        Transform{"pad", {{"by", 1}, {"fill", 0.5}}},
        Transform{"pad", {{"by", 4}, {"mode", "reflect"}}},
        Transform{"pad", {{"by", 5}, {"mode", "symmetric"}}}, Transform{"random_rotation"},
        Transform{"random_rotation", {{"degrees", -3}}},
        Transform{"random_rotation", {{"degrees", {20, 10}}}},
        Transform{"random_erasing", {{"value", 300}}},
        Transform{"random_erasing", {{"probability", -1}}},
        Transform{"random_erasing", {{"scale", 0.5}}},
        Transform{"random_erasing", {{"ratio", {2, 1}}}}}) {
    cases.add(transform.type + " " + transform.parameters.dump(),
              problem(transform, type_of(Element::uint8, {3, 4, 5})));
  }
  tests::expect_golden("trainer/input/transforms/golden/affine.txt", cases.text());
}

// --- random_rotation ------------------------------------------------------------------------------

// The pixel in whose square the middle of the pixel lies after it was turned back; also how far from an edge of that
// square, since PIL computes with 16 binary places.
struct Source {
  int x = 0;
  int y = 0;
  double distance = 0;
};

Source source_of(int x, int y, double degrees, const SampleShape& shape) {
  const double angle = degrees / 180 * std::numbers::pi;
  const double dx = x + 0.5 - shape.width / 2.0;
  const double dy = y + 0.5 - shape.height / 2.0;
  const double from_x = std::cos(angle) * dx - std::sin(angle) * dy + shape.width / 2.0;
  const double from_y = std::sin(angle) * dx + std::cos(angle) * dy + shape.height / 2.0;
  const double distance =
      std::min(std::abs(from_x - std::round(from_x)), std::abs(from_y - std::round(from_y)));
  return {static_cast<int>(std::floor(from_x)), static_cast<int>(std::floor(from_y)), distance};
}

template <class T>
void expect_turned(double degrees, const SampleShape& shape) {
  SCOPED_TRACE(degrees);
  const std::vector<T> pixels = numbered<T>(shape);
  const auto turned = applied<T>(
      {"random_rotation", {{"degrees", {degrees, degrees}}, {"fill", 255}}}, shape, pixels);
  ASSERT_EQ(turned.size(), pixels.size());
  int unclear = 0;
  int wrong = 0;
  std::size_t i = 0;
  for (int channel = 0; channel < shape.channels; ++channel) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x, ++i) {
        const Source from = source_of(x, y, degrees, shape);
        const bool is_inside =
            from.x >= 0 && from.x < shape.width && from.y >= 0 && from.y < shape.height;
        const int at = (channel * shape.height + from.y) * shape.width + from.x;
        const T expected = is_inside ? pixels[static_cast<std::size_t>(at)] : T{255};
        if (from.distance < 0.002) {
          ++unclear;
        } else {
          wrong += turned[i] != expected ? 1 : 0;
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(unclear, shape.elements() / 8);
}

TEST(RandomRotation, TakesTheNearestPixelAsPil) {
  for (const double degrees : {11.0, -37.5, 160.0, 271.3, -359.0}) {
    expect_turned<std::uint8_t>(degrees, {3, 37, 51});
    expect_turned<float>(degrees, {1, 20, 9});
  }
}

// Counter-clockwise, and without a pixel lost.
TEST(RandomRotation, OfRightAnglesIsExact) {
  const SampleShape shape{1, 2, 2};
  const std::vector<std::uint8_t> pixels = {1, 2,  //
                                            3, 4};
  const auto turned = [&](double degrees) {
    return applied<std::uint8_t>({"random_rotation", {{"degrees", {degrees, degrees}}}}, shape,
                                 pixels);
  };
  EXPECT_THAT(turned(0), ElementsAreArray({1, 2, 3, 4}));
  EXPECT_THAT(turned(90), ElementsAreArray({2, 4, 1, 3}));
  EXPECT_THAT(turned(180), ElementsAreArray({4, 3, 2, 1}));
  EXPECT_THAT(turned(-90), ElementsAreArray({3, 1, 4, 2}));
  EXPECT_EQ(turned(-90), turned(270));
}

TEST(RandomRotation, DrawsAnglesOfBothSigns) {
  const SampleShape shape{1, 31, 31};
  const auto pixels = numbered<std::uint8_t>(shape);
  std::set<std::vector<std::uint8_t>> results;
  for (std::uint64_t i = 0; i < 50; ++i)
    results.insert(applied<std::uint8_t>({"random_rotation", {{"degrees", 30}}}, shape, pixels, i));
  EXPECT_GT(results.size(), 45U);
  // The same draws, read once as a number and once as its interval.
  EXPECT_EQ(applied<std::uint8_t>({"random_rotation", {{"degrees", 30}}}, shape, pixels, 3),
            applied<std::uint8_t>({"random_rotation", {{"degrees", {-30, 30}}}}, shape, pixels, 3));
}

// --- random_erasing -------------------------------------------------------------------------------

// The rectangle of pixels that differ; of no size if none does.
Window changed(const SampleShape& shape, const std::vector<std::uint8_t>& before,
               const std::vector<std::uint8_t>& after) {
  Window part{.top = shape.height, .left = shape.width, .height = 0, .width = 0};
  int bottom = -1;
  int right = -1;
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      const auto at = static_cast<std::size_t>(y * shape.width + x);
      if (before[at] == after[at]) continue;
      part.top = std::min(part.top, y);
      part.left = std::min(part.left, x);
      bottom = std::max(bottom, y);
      right = std::max(right, x);
    }
  }
  if (bottom < 0) return part;
  part.height = bottom - part.top + 1;
  part.width = right - part.left + 1;
  return part;
}

// torchvision: height sqrt(area ratio), width sqrt(area / ratio), rounded, anywhere in the picture.
TEST(RandomErasing, ErasesOneRectangleOfTheSizeOfTorchvision) {
  const SampleShape shape{2, 20, 30};
  const auto pixels = numbered<std::uint8_t>(shape);
  const Transform erasing{
      "random_erasing",
      {{"probability", 1}, {"scale", {0.1, 0.1}}, {"ratio", {2, 2}}, {"value", {0, 255}}}};
  const int height = static_cast<int>(std::nearbyint(std::sqrt(20 * 30 * 0.1 * 2)));
  const int width = static_cast<int>(std::nearbyint(std::sqrt(20 * 30 * 0.1 / 2)));
  std::set<std::pair<int, int>> places;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    const auto erased = applied(erasing, shape, pixels, i);
    const Window part = changed(shape, pixels, erased);
    ASSERT_EQ(part.height, height);
    ASSERT_EQ(part.width, width);
    places.emplace(part.top, part.left);
    std::vector<std::uint8_t> expected = pixels;
    for (int y = part.top; y < part.top + height; ++y) {
      for (int x = part.left; x < part.left + width; ++x) {
        expected[static_cast<std::size_t>(y * 30 + x)] = 0;
        expected[static_cast<std::size_t>(600 + y * 30 + x)] = 255;
      }
    }
    ASSERT_EQ(erased, expected);
  }
  EXPECT_EQ(places.size(), static_cast<std::size_t>((20 - height + 1) * (30 - width + 1)));
}

TEST(RandomErasing, ErasesAsOftenAsAsked) {
  const SampleShape shape{1, 20, 20};
  const auto pixels = numbered<std::uint8_t>(shape);
  int erased = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    if (applied<std::uint8_t>({"random_erasing", {{"probability", 0.25}}}, shape, pixels, i) !=
        pixels)
      ++erased;
  }
  EXPECT_NEAR(erased, 250, 60);
  // As large as the picture is too large.
  EXPECT_EQ(applied<std::uint8_t>(
                {"random_erasing", {{"probability", 1}, {"scale", {1, 1}}, {"ratio", {1, 1}}}},
                shape, pixels),
            pixels);
}

TEST(RandomErasing, TakesFloatsAndDrawsSizesFromAllThatIsGiven) {
  const SampleShape shape{1, 40, 40};
  const auto pixels = numbered<float>(shape);
  std::set<std::size_t> areas;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const auto erased =
        applied<float>({"random_erasing", {{"probability", 1}, {"value", -1.5}}}, shape, pixels, i);
    std::size_t area = 0;
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      if (erased[k] == pixels[k]) continue;
      EXPECT_EQ(erased[k], -1.5F);
      ++area;
    }
    areas.insert(area);
  }
  // From 0.02 to 0.33 of 1600, but for rounding.
  EXPECT_LT(*areas.begin(), 50U);
  EXPECT_GT(*areas.rbegin(), 480U);
  EXPECT_LT(*areas.rbegin(), 560U);
}

}  // namespace
}  // namespace autotuned::input
