// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pipeline.hpp"

#include <gmock/gmock.h>

#include <set>

#include "tests/golden.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/loader_fixture.hpp"

namespace autotuned::input {
namespace {

using testing::HasSubstr;

constexpr SampleType kFiles{Element::encoded, 3, {300, 533}, {800, 800}, true};
const SampleType kPixels = type_of(Element::uint8, {3, 8, 9});

const Transform kDecode{"decode_jpeg"};
const Transform kYuv{"rgb_to_yuv"};
const Transform kToFloat{"to_float"};
const Transform kScale{"scale", {{"by", "1/255"}}};

Transform sized(const char* type, int size) {
  return {type, {{"size", size}}};
}

std::string problem(const SampleType& stored, const std::vector<Transform>& transforms) {
  const auto pipeline = Pipeline::compile(stored, transforms, 1);
  return pipeline ? "" : pipeline.error().message();
}

TEST(Pipeline, SaysWhichTransformCannotStandWhere) {
  const SampleType floats = type_of(Element::float32, {3, 8, 8});
  tests::Cases cases;
  cases.add("a crop of files", problem(kFiles, {sized("random_crop", 256)}));
  cases.add("decoding pixels", problem(kPixels, {kDecode}));
  cases.add("resizing floats", problem(kPixels, {kToFloat, sized("resize", 4)}));
  cases.add("floats of floats", problem(kPixels, {kYuv, kToFloat}));
  cases.add("resizing data of floats", problem(floats, {sized("resize", 4)}));
  cases.add("a large crop", problem(kPixels, {sized("center_crop", 9)}));
  cases.add("a crop too large for some", problem(kFiles, {kDecode, sized("random_crop", 400)}));
  cases.add("different sizes", problem(kFiles, {kDecode}));
  cases.add("files", problem(kFiles, {}));
  cases.add("colours of grey", problem(type_of(Element::uint8, {1, 8, 8}), {kYuv}));
  cases.add("an unknown transform", problem(kPixels, {{"blur"}}));
  for (const Json& size : {Json(), Json(0), Json("8"), Json({1, 2, 3}), Json({4, -1}), Json(1e9)})
    cases.add("size " + size.dump(), problem(kPixels, {{"resize", {{"size", size}}}}));
  for (const Json& ratio : {Json(), Json(-0.1), Json(1.1), Json("x")})
    cases.add("ratio " + ratio.dump(), problem(kPixels, {{"random_mask", {{"ratio", ratio}}}}));
  cases.add("text for a number",
            problem(kPixels, {{"random_mask", {{"ratio", 0.5}, {"dilate", "8"}}}}));
  cases.add("too few numbers",
            problem(kPixels, {kYuv, {"normalize", {{"mean", {1, 2}}, {"std", 1}}}}));
  tests::expect_golden("trainer/input/transforms/golden/pipeline.txt", cases.text());
}

// What has not been looked at may have any size.
TEST(Pipeline, DoesNotTrustSizesThatItHasNotSeen) {
  SampleType some = type_of(Element::encoded, {3, 533, 800});
  EXPECT_EQ(problem(some, {kDecode}), "");
  some.is_complete = false;
  EXPECT_THAT(problem(some, {kDecode}), HasSubstr("different sizes"));
  EXPECT_EQ(problem(some, {kDecode, sized("random_crop", 256)}), "");
}

TEST(Pipeline, TheLongestPointWiseTailOnBytesIsATable) {
  const Pipeline tail = pipeline_of(kPixels, {sized("resize", 4), kToFloat, kScale});
  ASSERT_NE(tail.table(), nullptr);
  EXPECT_TRUE(tail.has_stages());
  EXPECT_EQ(tail.table()->channel(2)[255], static_cast<float>(1.0 / 255));
  const Pipeline all = pipeline_of(kPixels, {kScale});
  ASSERT_NE(all.table(), nullptr);
  EXPECT_FALSE(all.has_stages());
  const Pipeline none = pipeline_of(kPixels, {sized("center_crop", 4)});
  ASSERT_NE(none.table(), nullptr);
  EXPECT_EQ(none.table()->channel(0)[7], 7.0F);

  const Pipeline yuv = pipeline_of(kPixels, {kYuv, kScale});
  EXPECT_EQ(yuv.table(), nullptr);
  EXPECT_THAT(yuv.why_no_table(), HasSubstr("`rgb_to_yuv`"));
  const Pipeline early = pipeline_of(kPixels, {kScale, sized("center_crop", 4)});
  EXPECT_EQ(early.table(), nullptr);
  EXPECT_THAT(early.why_no_table(), HasSubstr("`scale`"));
  const Pipeline floats = pipeline_of(type_of(Element::float32, {3, 8, 8}), {kScale});
  EXPECT_EQ(floats.table(), nullptr);
  EXPECT_THAT(floats.why_no_table(), HasSubstr("consists of floats"));
}

// Bytes that become numbers on the device are the same numbers.
TEST(Pipeline, BytesAndTableGiveTheFloats) {
  const Fixture source = fixture("numbers_source");
  const Pipeline pipeline =
      pipeline_of(source.type(), {sized("resize", 11),
                                  {"random_mask", {{"ratio", 0.3}}},
                                  kToFloat,
                                  {"normalize", {{"mean", {0.1, 0.2, 0.3}}, {"std", 0.5}}}});
  const auto bytes = run<std::uint8_t>(pipeline, source.sample(), {2, 77});
  const auto floats = run<float>(pipeline, source.sample(), {2, 77});
  std::vector<float> converted(floats.size());
  convert_sample(*pipeline.table(), bytes, converted.data());
  EXPECT_EQ(converted, floats);
}

TEST(Pipeline, DrawsBelongToSeedPlaceAndTransform) {
  const Fixture source = fixture("numbers_source");
  const Transform mask{"random_mask", {{"ratio", 0.5}}};
  const auto masked = [&](const std::vector<Transform>& transforms, std::uint64_t seed,
                          Position position) {
    return run<std::uint8_t>(pipeline_of(source.type(), transforms, seed), source.sample(),
                             position);
  };
  const auto first = masked({mask}, 1, {0, 0});
  EXPECT_EQ(masked({mask}, 1, {0, 0}), first);
  EXPECT_NE(masked({mask}, 2, {0, 0}), first);
  EXPECT_NE(masked({mask}, 1, {0, 1}), first);
  EXPECT_NE(masked({mask}, 1, {1, 0}), first);
  // Another of the same kind draws other numbers, one of another kind changes nothing.
  EXPECT_NE(masked({mask, mask}, 1, {0, 0}), first);
  EXPECT_EQ(masked({{"random_crop", {{"size", {24, 17}}}}, mask}, 1, {0, 0}), first);
}

// A data set of pictures whose crops and masks show where they were drawn.
class Gradients final : public NumberedDataset {
 public:
  using NumberedDataset::NumberedDataset;
  SampleType type() const override { return type_of(Element::uint8, {1, 16, 16}); }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(index) + i);
    return {};
  }
};

// Two epochs and a bit of what a loader gives, sample by sample.
std::vector<std::vector<float>> samples_of(const Pipeline& pipeline, int workers, int slots,
                                           std::int64_t batch_size) {
  const Gradients dataset(24);
  constexpr std::size_t kElements = 36;
  std::vector<std::vector<float>> images(
      static_cast<std::size_t>(slots),
      std::vector<float>(static_cast<std::size_t>(batch_size) * kElements));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch_size));
  std::vector<std::vector<std::int64_t>> all_labels(images.size(), labels);
  LoaderSettings settings{.workers = workers, .batch_size = batch_size};
  for (std::size_t i = 0; i < images.size(); ++i)
    settings.ring.push_back({images[i].data(), all_labels[i].data()});
  auto loader = Loader::create(dataset, {.seed = 5}, pipeline, settings);
  EXPECT_TRUE(loader) << (loader ? "" : loader.error().message());
  (*loader)->resume();
  std::vector<std::vector<float>> samples;
  while (samples.size() < 60) {
    const auto batch = (*loader)->next();
    EXPECT_TRUE(batch) << batch.error().message();
    const auto& from = images[static_cast<std::size_t>(batch->slot)];
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch->samples); ++i) {
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(i * kElements);
      samples.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(kElements));
    }
    (*loader)->release(batch->slot);
  }
  samples.resize(60);
  return samples;
}

TEST(Pipeline, GivesTheSameSamplesWhateverTheLoader) {
  const Pipeline pipeline = pipeline_of(
      Gradients(1).type(), {sized("random_crop", 6), {"random_mask", {{"ratio", 0.2}}}, kScale});
  const auto expected = samples_of(pipeline, 0, 1, 4);
  EXPECT_EQ(std::set<std::vector<float>>(expected.begin(), expected.end()).size(), 60U);
  EXPECT_EQ(samples_of(pipeline, 0, 2, 12), expected);
  EXPECT_EQ(samples_of(pipeline, 1, 3, 4), expected);
  EXPECT_EQ(samples_of(pipeline, 3, 5, 8), expected);
}

TEST(Pipeline, WithoutATableNoBytesCanBeAskedOfTheLoader) {
  const NumberedDataset dataset(20);
  Buffers buffers(1, 4, PixelType::uint8);
  const auto refusal = [&](const std::vector<Transform>& transforms) {
    const Pipeline pipeline = pipeline_of(dataset.type(), transforms);
    const auto loader =
        Loader::create(dataset, {}, pipeline,
                       {.batch_size = 4, .pixel_type = PixelType::uint8, .ring = buffers.ring()});
    EXPECT_FALSE(loader);
    if (loader) return std::string();
    EXPECT_EQ(loader.error().kind, ErrorKind::unsupported);
    return loader.error().message();
  };
  const Transform mask{"random_mask", {{"ratio", 0.5}}};
  EXPECT_EQ(refusal({kScale, mask}),
            "transfer.dtype: batches cannot be transferred as uint8: `scale` makes floats that do "
            "not come "
            "from one byte each; use float32");
  EXPECT_EQ(refusal({kScale, {"random_crop", {{"size", 2}}}}),
            "transfer.dtype: batches cannot be transferred as uint8: a crop follows `scale`, which "
            "input.order: crop_first moves ahead of it; use float32");
}

}  // namespace
}  // namespace autotuned::input
