// SPDX-License-Identifier: Apache-2.0
// random_resized_crop, random_flip and color_jitter: the bytes of torchvision and PIL, and fair draws.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "tests/golden.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/transforms/pil_hue.hpp"
#include "trainer/input/transforms/transform_types.hpp"

namespace autotuned::input {
namespace {

TEST(ColorJitter, GivesTheBytesOfTorchvisionAndPil) {
  int compared = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!facts.contains("changes") || name == "jitter_all") continue;
    SCOPED_TRACE(name);
    const Fixture source = fixture(facts["source"]);
    const Pipeline pipeline = pipeline_of(source.type(), {{"color_jitter", facts["changes"]}});
    EXPECT_TRUE(run<std::uint8_t>(pipeline, source.sample()) == fixture(name).bytes);
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

// Every colour there is, where no sanitizer makes that too slow, and some of them by two more angles.
TEST(ColorJitter, TurnsTheHueOfEveryColourAsPil) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kFirstStep = 15;
#else
  constexpr int kFirstStep = 1;
#endif
  const SampleShape shape{3, 256, 256};
  const std::size_t plane = std::size_t{256} * 256;
  std::vector<std::uint8_t> bytes(3 * plane);
  for (std::size_t i = 0; i < plane; ++i) {
    bytes[plane + i] = static_cast<std::uint8_t>(i / 256);
    bytes[2 * plane + i] = static_cast<std::uint8_t>(i);
  }
  int turns = 0;
  for (const double hue : {0.1, -0.37, 0.0041}) {
    const auto by = static_cast<std::uint8_t>(static_cast<int>(hue * 255));
    const Pipeline pipeline =
        pipeline_of(type_of(Element::uint8, shape), {{"color_jitter", {{"hue", {hue, hue}}}}});
    for (int red = turns++; red < 256; red += turns == 1 ? kFirstStep : 17) {
      std::fill_n(bytes.begin(), plane, static_cast<std::uint8_t>(red));
      const auto result = run<std::uint8_t>(pipeline, {Element::uint8, shape, bytes});
      int wrong = 0;
      for (std::size_t i = 0; i < plane; ++i) {
        const auto expected = turned(red, static_cast<int>(i / 256), static_cast<int>(i % 256), by);
        wrong += result[i] != expected[0] || result[plane + i] != expected[1] ||
                         result[2 * plane + i] != expected[2]
                     ? 1
                     : 0;
      }
      ASSERT_EQ(wrong, 0) << "red " << red << ", hue " << hue;
    }
  }
}

// All 24 orders come, and one of them is that of the fixture.
TEST(ColorJitter, ChangesInAnOrderThatIsDrawn) {
  const Fixture source = fixture("jitter_source");
  const Fixture expected = fixture("jitter_all");
  const Pipeline pipeline = pipeline_of(
      source.type(), {{"color_jitter", fixture_index().at("jitter_all").at("changes")}});
  std::set<std::vector<std::uint8_t>> results;
  for (std::int64_t i = 0; i < 400; ++i)
    results.insert(run<std::uint8_t>(pipeline, source.sample(), {0, i}));
  EXPECT_TRUE(results.contains(expected.bytes));
  EXPECT_GT(results.size(), 12U);  // some orders give the same
  EXPECT_LE(results.size(), 24U);
}

TEST(ColorJitter, DrawsAmountsFromAllOfWhatIsGiven) {
  const std::vector<std::uint8_t> bytes(3, 100);
  const SampleShape shape{3, 1, 1};
  const Pipeline pipeline =
      pipeline_of(type_of(Element::uint8, shape), {{"color_jitter", {{"brightness", 0.4}}}});
  int least = 255;
  int most = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const int value = run<std::uint8_t>(pipeline, {Element::uint8, shape, bytes}, {0, i})[0];
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_EQ(least, 60);
  EXPECT_EQ(most, 139);
  const Pipeline nothing = pipeline_of(type_of(Element::uint8, shape), {{"color_jitter"}});
  EXPECT_EQ(run<std::uint8_t>(nothing, {Element::uint8, shape, bytes}), bytes);
}

TEST(RandomFlip, ExchangesLeftAndRightHalfTheTime) {
  const std::vector<std::uint8_t> bytes = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> flipped = {3, 2, 1, 6, 5, 4};
  const SampleShape shape{1, 2, 3};
  const Pipeline pipeline = pipeline_of(type_of(Element::uint8, shape), {{"random_flip"}});
  int flips = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto result = run<std::uint8_t>(pipeline, {Element::uint8, shape, bytes}, {0, i});
    ASSERT_TRUE(result == bytes || result == flipped);
    flips += result == flipped ? 1 : 0;
  }
  EXPECT_NEAR(flips, 1000, 120);  // over five standard deviations
  for (const double probability : {0.0, 1.0}) {
    const Pipeline sure = pipeline_of(type_of(Element::uint8, shape),
                                      {{"random_flip", {{"probability", probability}}}});
    EXPECT_EQ(run<std::uint8_t>(sure, {Element::uint8, shape, bytes}),
              probability == 0 ? bytes : flipped);
  }
}

TEST(RandomFlip, TakesFloatsToo) {
  const Fixture source = fixture("numbers_source");
  const Transform flip{"random_flip", {{"probability", 1}}};
  EXPECT_EQ(run<float>(pipeline_of(source.type(), {flip, {"rgb_to_yuv"}}), source.sample()),
            run<float>(pipeline_of(source.type(), {{"rgb_to_yuv"}, flip}), source.sample()));
}

std::unique_ptr<Stage> made(const Transform& transform, const SampleType& type) {
  auto stage = find_transform(transform.type)->make(transform, type);
  EXPECT_TRUE(stage);
  return std::move(*stage);
}

TEST(RandomResizedCrop, DrawsPartsOfTheWantedShareAndProportions) {
  const SampleShape shape{3, 533, 800};
  const auto stage = made({"random_resized_crop", {{"size", 224}}}, type_of(Element::uint8, shape));
  const auto& cut = static_cast<const CutStage&>(*stage);
  double least_share = 1;
  double most_share = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const auto window = cut.window(shape, RandomStream(1, i));
    ASSERT_TRUE(window);
    ASSERT_GE(window->top, 0);
    ASSERT_GE(window->left, 0);
    ASSERT_LE(window->top + window->height, shape.height);
    ASSERT_LE(window->left + window->width, shape.width);
    const double share = static_cast<double>(window->height) * window->width / (533.0 * 800.0);
    const double ratio = static_cast<double>(window->width) / window->height;
    ASSERT_GT(share, 0.079);
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.36);
    least_share = std::min(least_share, share);
    most_share = std::max(most_share, share);
  }
  EXPECT_LT(least_share, 0.085);
  EXPECT_GT(most_share, 0.8);
}

// Where nothing of the wanted kind fits: the middle, as torchvision.
TEST(RandomResizedCrop, TakesTheMiddleWhereNothingFits) {
  const auto stage = made({"random_resized_crop", {{"size", 8}, {"scale", {1, 1}}}},
                          type_of(Element::uint8, {3, 10, 100}));
  const auto& cut = static_cast<const CutStage&>(*stage);
  const auto wide = cut.window({3, 10, 100}, RandomStream(1, 0));
  EXPECT_EQ(wide->width, 13);
  EXPECT_EQ(wide->left, 43);
  EXPECT_EQ(wide->height, 10);
  const auto high = cut.window({3, 100, 10}, RandomStream(1, 0));
  EXPECT_EQ(high->height, 13);
  EXPECT_EQ(high->top, 43);
}

// The part, as a crop and a resize of their own would make it.
TEST(RandomResizedCrop, IsACropAndAResize) {
  const Fixture source = fixture("jitter_source");
  const Transform transform{"random_resized_crop", {{"size", {19, 23}}}};
  const Pipeline pipeline = pipeline_of(source.type(), {transform});
  EXPECT_EQ(pipeline.shape(), (SampleShape{3, 19, 23}));
  EXPECT_EQ(pipeline.parts().front(), "random_resized_crop");
  std::set<std::vector<std::uint8_t>> results;
  for (std::int64_t i = 0; i < 50; ++i)
    results.insert(run<std::uint8_t>(pipeline, source.sample(), {0, i}));
  EXPECT_GT(results.size(), 45U);
  // A crop of the whole picture is a resize alone.
  const Transform all{"random_resized_crop",
                      {{"size", {19, 23}}, {"scale", {1, 1}}, {"ratio", {51.0 / 37, 51.0 / 37}}}};
  const Transform resize{"resize", {{"size", {19, 23}}}};
  EXPECT_EQ(run<std::uint8_t>(pipeline_of(source.type(), {all}), source.sample()),
            run<std::uint8_t>(pipeline_of(source.type(), {resize}), source.sample()));
}

TEST(AugmentTransforms, RefuseWhatTheyCannotDo) {
  const SampleType pixels = type_of(Element::uint8, {3, 20, 20});
  const auto error = [&](const Transform& transform, const SampleType& type) {
    const auto pipeline = Pipeline::compile(type, {&transform, 1}, 1);
    return pipeline ? "" : pipeline.error().message();
  };
  tests::Cases cases;
  for (const Transform& transform :
       {Transform{"random_resized_crop", {{"size", 8}, {"scale", {0.5, 0.1}}}},
        Transform{"random_resized_crop", {{"size", 8}, {"ratio", 2}}},
        Transform{"random_flip", {{"probability", 2}}}, Transform{"color_jitter", {{"hue", 0.6}}},
        Transform{"color_jitter", {{"contrast", {2, 1}}}}})
    cases.add(transform.type + " " + transform.parameters.dump(), error(transform, pixels));
  cases.add("color_jitter of grey", error({"color_jitter"}, type_of(Element::uint8, {1, 20, 20})));
  cases.add("color_jitter of floats",
            error({"color_jitter"}, type_of(Element::float32, {3, 20, 20})));
  tests::expect_golden("trainer/input/transforms/golden/augment.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::input
