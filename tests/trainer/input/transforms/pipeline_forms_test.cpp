// SPDX-License-Identifier: Apache-2.0
// Whatever form a pipeline has, what comes out is the same.
#include <gmock/gmock.h>

#include <array>
#include <set>

#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/jpeg_files.hpp"
#include "tests/trainer/input/loader_fixture.hpp"

namespace autotuned::input {
namespace {

const Transform kDecoded{"decode_jpeg"};
const Transform kAsYuv{"rgb_to_yuv"};
const Transform kAsFloat{"to_float"};
const Transform kScaled{"scale", {{"by", "1/255"}}};
const Transform kNormalize{"normalize", {{"mean", {0.1, 0.2, 0.3}}, {"std", {0.5, 0.25, 2}}}};
const Transform kMask{"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}};

const Transform kFlip{"random_flip"};
const Transform kPad{"pad", {{"by", 3}, {"mode", "reflect"}}};
const Transform kTurn{"random_rotation", {{"degrees", 30}}};
const Transform kErase{"random_erasing"};
const Transform kAugment{"rand_augment"};

Transform crop(int height, int width) {
  return {"random_crop", {{"size", {height, width}}}};
}
Transform center(int size) {
  return {"center_crop", {{"size", size}}};
}

std::vector<PipelineForm> all_forms() {
  // In turn: a way to dilate does not depend on the rest of a form.
  constexpr std::array dilations = {Dilation::convolution, Dilation::shifts, Dilation::bits};
  std::vector<PipelineForm> forms;
  for (const bool crops_first : {false, true}) {
    for (const bool decodes_crop : {false, true}) {
      for (const PointOps ops : {PointOps::per_sample, PointOps::fused, PointOps::per_batch}) {
        for (const CacheKind cache :
             {CacheKind::none, CacheKind::raw, CacheKind::decoded, CacheKind::prefix})
          forms.push_back({.crops_first = crops_first,
                           .decodes_crop = decodes_crop,
                           .point_ops = ops,
                           .cache = cache,
                           .dilation = dilations[forms.size() % dilations.size()]});
      }
    }
  }
  return forms;
}

Pipeline formed(const SampleType& stored, const std::vector<Transform>& transforms,
                PipelineForm form) {
  auto pipeline = Pipeline::compile(stored, transforms, 1, form);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  return pipeline ? std::move(*pipeline) : Pipeline();
}

// A batch of samples as a loader makes it, every byte of it. Where something is kept: out of a copy of it,
// unless the cache has no room.
std::vector<std::uint8_t> batch_of(const Pipeline& pipeline, const std::vector<Sample>& samples,
                                   PixelType type, bool has_room = true) {
  const auto elements = static_cast<std::size_t>(pipeline.shape().elements());
  std::vector<std::uint8_t> batch(samples.size() * elements * bytes_of(type));
  std::vector<std::uint8_t> assembled(samples.size() * pipeline.written_bytes(type));
  const bool is_finished_later = pipeline.has_batch_stages(type);
  auto& written = is_finished_later ? assembled : batch;
  auto scratch = pipeline.make_scratch();
  const Position first{3, 41};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Position position{first.epoch, first.sample + static_cast<std::int64_t>(i)};
    std::uint8_t* const out = written.data() + i * pipeline.written_bytes(type);
    Result<void> done;
    if (has_room && pipeline.is_cached() && pipeline.has_stages()) {
      auto made = pipeline.run_cached_parts(samples[i], scratch);
      EXPECT_TRUE(made);
      if (!made) continue;
      const std::vector<std::uint8_t> kept(made->bytes.begin(), made->bytes.end());
      made->bytes = kept;
      done = pipeline.run_rest(*made, position, type, out, scratch);
    } else {
      done = pipeline.run(samples[i], position, type, out, scratch);
    }
    EXPECT_TRUE(done) << (done ? "" : done.error().message());
  }
  if (is_finished_later) {
    pipeline.finish_batch(assembled.data(), static_cast<std::int64_t>(samples.size()), first, type,
                          batch.data(), scratch);
  }
  return batch;
}

void expect_one_result(const SampleType& stored, const std::vector<Sample>& samples,
                       const std::vector<Transform>& transforms, int decode_scale = 1) {
  const Pipeline written = formed(stored, transforms, {.decode_scale = decode_scale});
  const auto expected = batch_of(written, samples, PixelType::float32);
  for (PipelineForm form : all_forms()) {
    form.decode_scale = decode_scale;
    SCOPED_TRACE(testing::Message()
                 << form.crops_first << form.decodes_crop << static_cast<int>(form.point_ops)
                 << static_cast<int>(form.cache));
    const Pipeline other = formed(stored, transforms, form);
    EXPECT_EQ(other.shape(), written.shape());
    EXPECT_EQ(batch_of(other, samples, PixelType::float32), expected);
    EXPECT_EQ(batch_of(other, samples, PixelType::float32, false), expected);
    if (other.table() == nullptr) continue;
    // The bytes that travel, and the table behind them.
    const auto bytes = batch_of(other, samples, PixelType::uint8);
    const auto elements = static_cast<std::size_t>(other.shape().elements());
    std::vector<float> floats(bytes.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      convert_sample(*other.table(), std::span(bytes).subspan(i * elements, elements),
                     floats.data() + i * elements);
    }
    EXPECT_EQ(std::memcmp(floats.data(), expected.data(), expected.size()), 0);
  }
}

TEST(PipelineForms, GiveTheSameBytes) {
  const Fixture source = fixture("numbers_source");  // 3 x 37 x 51 or so
  std::vector<std::uint8_t> other(source.bytes.rbegin(), source.bytes.rend());
  const std::vector<Sample> samples = {
      source.sample(), {source.element, source.shape, other}, source.sample()};
  for (const auto& transforms : std::vector<std::vector<Transform>>{
           {},
           {kScaled},
           {kMask},
           {kAsYuv, kScaled},
           {kAsFloat, kNormalize},
           {crop(11, 13), kMask, kAsYuv, kScaled},
           {kAsFloat, kNormalize, crop(9, 16)},
           {kAsYuv, crop(7, 5), kScaled},
           {kMask, crop(10, 10), kAsFloat},
           {kAsFloat, kMask, crop(8, 9), kNormalize, kAsYuv},
           {kScaled, kAsYuv, crop(12, 12), kMask, center(7), kNormalize},
           {{"resize", {{"size", 19}}}, kMask, kAsFloat, crop(6, 6)},
           {crop(14, 14), kAsFloat, crop(6, 7), kMask},
           {{"random_resized_crop", {{"size", 12}}},
            {"random_flip"},
            {"color_jitter", {{"brightness", 0.4}, {"contrast", 0.4}, {"hue", 0.1}}},
            kAsFloat,
            kNormalize},
           {kPad, crop(20, 20), kTurn, kAugment, kAsFloat, kErase, kNormalize, kAsYuv},
           {kErase, crop(9, 9), kPad, center(8), kMask, kScaled},
       }) {
    std::string names;
    for (const Transform& transform : transforms)
      names += transform.type + " ";
    SCOPED_TRACE(names);
    expect_one_result(source.type(), samples, transforms);
  }
}

// What stands before the first draw, wherever that was moved to, and never half of a stage.
TEST(PipelineForms, KeepWhatNothingRandomMade) {
  const SampleType files = type_of(Element::encoded, {3, 100, 90});
  const auto kept = [&](const std::vector<Transform>& transforms, PipelineForm form) {
    const Pipeline made = formed(files, transforms, form);
    return made.is_cached() ? std::to_string(made.cached_parts()) + ": " + made.cached_type().text()
                            : "nothing";
  };
  const std::vector<Transform> photo = {kDecoded, kAsYuv, crop(20, 30), kScaled};
  EXPECT_EQ(kept(photo, {}), "nothing");
  EXPECT_EQ(kept(photo, {.cache = CacheKind::raw}), "0: 3 x 100 x 90");
  EXPECT_EQ(kept(photo, {.cache = CacheKind::decoded}), "1: 3 x 100 x 90");
  EXPECT_EQ(kept(photo, {.cache = CacheKind::prefix}), "2: 3 x 100 x 90");
  EXPECT_EQ(kept(photo, {.crops_first = true, .cache = CacheKind::prefix}), "1: 3 x 100 x 90");
  EXPECT_EQ(kept(photo, {.decodes_crop = true, .cache = CacheKind::prefix}), "1: 3 x 100 x 90");
  // The decoder makes a crop that is always the same.
  EXPECT_EQ(kept({kDecoded, center(40), kMask}, {.decodes_crop = true, .cache = CacheKind::prefix}),
            "1: 3 x 40 x 40");
  EXPECT_EQ(
      kept({kDecoded, center(40), kMask}, {.decodes_crop = true, .cache = CacheKind::decoded}),
      "1: 3 x 100 x 90");
  // Stored pixels need no decoding; all before the pass or table may be kept.
  const SampleType pixels = type_of(Element::uint8, {3, 10, 9});
  EXPECT_FALSE(formed(pixels, {kAsFloat}, {.cache = CacheKind::decoded}).is_cached());
  EXPECT_EQ(formed(pixels, {kAsFloat}, {.cache = CacheKind::prefix}).cached_parts(), 0U);
  EXPECT_EQ(formed(pixels, {kAsYuv}, {.cache = CacheKind::prefix}).cached_parts(), 1U);
  const PipelineForm fused{.point_ops = PointOps::fused, .cache = CacheKind::prefix};
  EXPECT_EQ(formed(pixels, {kAsYuv}, fused).cached_parts(), 0U);
  // The same is kept under the same key, whatever comes after.
  const auto key = [&](PipelineForm form) { return formed(files, photo, form).cached_key(); };
  EXPECT_EQ(key({.cache = CacheKind::decoded}),
            key({.crops_first = true, .cache = CacheKind::prefix}));
  EXPECT_NE(key({.cache = CacheKind::decoded}), key({.cache = CacheKind::prefix}));
  EXPECT_NE(key({.cache = CacheKind::raw}), key({.cache = CacheKind::decoded}));
  // A picture that is decoded smaller is another one. Where its size follows from a random cut, none is kept.
  const std::vector<Transform> resized = {kDecoded, {"resize", {{"size", 20}}}, kScaled};
  const PipelineForm half{.cache = CacheKind::decoded, .decode_scale = 2};
  EXPECT_EQ(kept(resized, half), "1: 3 x 1 to 100 x 1 to 90");
  EXPECT_NE(formed(files, resized, half).cached_key(),
            formed(files, resized, {.cache = CacheKind::decoded}).cached_key());
  const std::vector<Transform> cut = {kDecoded, {"random_resized_crop", {{"size", 20}}}, kScaled};
  EXPECT_EQ(kept(cut, half), "nothing");
  EXPECT_EQ(kept(cut, {.cache = CacheKind::prefix, .decode_scale = 2}), "nothing");
  EXPECT_EQ(kept(cut, {.cache = CacheKind::raw, .decode_scale = 2}), "0: 3 x 100 x 90");
}

TEST(PipelineForms, OfFilesToo) {
  const std::vector<std::uint8_t> file = encoded({45, 61, 90, 2, 2});
  const std::vector<Sample> samples(3, Sample{.element = Element::encoded, .bytes = file});
  for (const auto& transforms : std::vector<std::vector<Transform>>{
           {kDecoded, crop(20, 30), kScaled},
           {kDecoded, crop(20, 30)},
           {kDecoded, crop(20, 30), kMask, kAsYuv, kScaled},
           {kDecoded, crop(20, 30), {"resize", {{"size", 19}}}, crop(6, 6), kNormalize},
           {kDecoded, kAsYuv, crop(20, 30), kScaled},
           {kDecoded, center(40), crop(20, 30), kScaled},
           {kDecoded, kFlip, crop(20, 30), kScaled},
           {kDecoded, kFlip, kAsYuv, center(40), kFlip, crop(20, 30)},
           {kDecoded, kFlip, {"random_resized_crop", {{"size", 9}}}, kAsFloat},
       }) {
    SCOPED_TRACE(transforms.size());
    expect_one_result(type_of(Element::encoded, {3, 45, 61}), samples, transforms);
  }
}

// A crop ahead of a flip is the mirrored part, whatever is left over beside it.
TEST(PipelineForms, CropsBeforeFlipsAreMirrored) {
  for (const int width : {16, 17, 33, 61}) {
    const std::vector<std::uint8_t> file = encoded({23, width, 90, 2, 2});
    const SampleType stored = type_of(Element::encoded, {3, 23, width});
    const Sample sample{.element = Element::encoded, .bytes = file};
    for (const auto& transforms : std::vector<std::vector<Transform>>{
             {kDecoded, kFlip, crop(10, 9)},
             {kDecoded, kFlip, crop(23, 16)},
             {kDecoded, kFlip, center(16)},
             {kDecoded, kFlip, center(15)},
             {kDecoded, {"random_flip", {{"probability", 0.25}}}, crop(20, 12), kFlip, crop(9, 7)},
             {kDecoded, kFlip, kAsFloat, kFlip, center(11), kScaled},
         }) {
      const Pipeline written = formed(stored, transforms, {});
      std::set<std::vector<float>> different;
      for (const PipelineForm& form :
           {PipelineForm{.crops_first = true}, PipelineForm{.decodes_crop = true}}) {
        const Pipeline moved = formed(stored, transforms, form);
        EXPECT_TRUE(moved.chances().can_move_crop);
        EXPECT_TRUE(moved.chances().can_decode_crop);
        if (form.decodes_crop) {
          EXPECT_THAT(moved.parts()[0], testing::HasSubstr("decode_jpeg + "));
        }
        for (std::int64_t place = 0; place < 60; ++place) {
          const Position position{place / 7, place};
          const auto expected = run<float>(written, sample, position);
          ASSERT_EQ(run<float>(moved, sample, position), expected)
              << width << " wide, " << moved.parts()[0] << ", at " << place;
          different.insert(expected);
        }
      }
      EXPECT_GT(different.size(), 1U);  // some are mirrored
    }
  }
}

// Where the middle of a picture is mirrored depends on the draw, so that none is kept for all.
TEST(PipelineForms, KeepNoCropThatMayBeMirrored) {
  const SampleType files = type_of(Element::encoded, {3, 100, 91});
  const Pipeline made = formed(files, {kDecoded, kFlip, center(40)},
                               {.crops_first = true, .cache = CacheKind::prefix});
  EXPECT_EQ(made.parts()[1], "center_crop");
  EXPECT_EQ(made.cached_parts(), 1U);
}

// Other pixels than those of whole pictures, but the same ones whatever the form.
TEST(PipelineForms, OfPicturesThatAreDecodedSmaller) {
  const std::vector<std::uint8_t> file = encoded({91, 122, 90, 2, 2});
  const std::vector<Sample> samples(4, Sample{.element = Element::encoded, .bytes = file});
  const SampleType stored = type_of(Element::encoded, {3, 91, 122});
  for (const auto& transforms : std::vector<std::vector<Transform>>{
           {kDecoded, {"resize", {{"size", {20, 31}}}}, kScaled},
           {kDecoded, {"resize", {{"size", 20}}}, crop(9, 9), kMask, kAsYuv},
           {kDecoded, center(77), {"resize", {{"size", 9}}}, kAsFloat},
           {kDecoded, crop(50, 60), {"resize", {{"size", 13}}}, crop(6, 6), kNormalize},
           {kDecoded,
            {"random_resized_crop", {{"size", 11}}},
            {"random_flip"},
            kAsFloat,
            kNormalize},
       }) {
    SCOPED_TRACE(transforms[1].type);
    for (const int scale : {2, 4, 8})
      expect_one_result(stored, samples, transforms, scale);
    EXPECT_NE(
        batch_of(formed(stored, transforms, {.decode_scale = 4}), samples, PixelType::float32),
        batch_of(formed(stored, transforms, {}), samples, PixelType::float32));
  }
}

TEST(PipelineForms, OfFloatsToo) {
  const Fixture floats = fixture("normalized");
  expect_one_result(floats.type(), {floats.sample(), floats.sample()},
                    {kMask, kScaled, crop(5, 4), kNormalize});
}

TEST(PipelineForms, OfPicturesTooLargeForTheNearestCache) {
  const SampleShape shape{3, 5, 3000};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(mix64(i));
  expect_one_result(type_of(Element::uint8, shape), {{Element::uint8, shape, bytes}},
                    {kMask, kAsYuv, kMask, kScaled});
}

// A crop passes what declares that it changes pixels one by one, and nothing else.
TEST(PipelineForms, SayWhatTheyWouldChange) {
  const SampleType files = type_of(Element::encoded, {3, 100, 90});
  const SampleType pixels = type_of(Element::uint8, {3, 100, 90});
  const auto chances = [](const SampleType& stored, const std::vector<Transform>& transforms) {
    const PipelineChances found = formed(stored, transforms, {}).chances();
    return std::tuple(found.can_move_crop, found.can_decode_crop, found.pixel_stages);
  };
  using Chances = std::tuple<bool, bool, int>;
  EXPECT_EQ(chances(files, {kDecoded, crop(8, 8), kMask, kAsYuv, kScaled}),
            Chances(false, true, 3));
  EXPECT_EQ(chances(files, {kDecoded, kAsFloat, crop(8, 8)}), Chances(true, true, 0));
  EXPECT_EQ(chances(files, {kDecoded, kMask, crop(8, 8), kAsFloat}), Chances(false, false, 0));
  EXPECT_EQ(chances(files, {kDecoded, {"resize", {{"size", 50}}}, crop(8, 8)}),
            Chances(false, false, 0));
  EXPECT_EQ(chances(pixels, {crop(8, 8), kMask, kAsFloat}), Chances(false, false, 1));
  EXPECT_EQ(chances(pixels, {crop(80, 80), kAsYuv, kScaled, crop(8, 8)}), Chances(true, false, 0));
}

TEST(PipelineForms, SayHowSmallPicturesMayBeDecoded) {
  const SampleType files = type_of(Element::encoded, {3, 100, 90});
  const auto scale = [](const SampleType& stored, const std::vector<Transform>& transforms) {
    return formed(stored, transforms, {}).chances().decode_scale;
  };
  const auto resize = [](int size) { return Transform{"resize", {{"size", size}}}; };
  EXPECT_EQ(scale(files, {kDecoded, resize(46)}), 1);
  EXPECT_EQ(scale(files, {kDecoded, resize(45)}), 2);
  EXPECT_EQ(scale(files, {kDecoded, resize(22)}), 4);
  EXPECT_EQ(scale(files, {kDecoded, resize(3)}), 8);
  EXPECT_EQ(scale(files, {kDecoded, crop(40, 40), resize(12)}), 2);
  EXPECT_EQ(scale(files, {kDecoded, {"random_resized_crop", {{"size", 12}}}}), 4);
  // Something else sees the picture first, or nothing is decoded.
  EXPECT_EQ(scale(files, {kDecoded, {"random_flip"}, resize(3)}), 1);
  EXPECT_EQ(scale(files, {kDecoded, crop(40, 40), crop(30, 30), resize(3)}), 1);
  EXPECT_EQ(scale(type_of(Element::uint8, {3, 100, 90}), {resize(3)}), 1);
}

TEST(PipelineForms, SayWhetherTheyDilate) {
  const SampleType pixels = type_of(Element::uint8, {3, 100, 90});
  EXPECT_TRUE(formed(pixels, {kAsFloat, kMask}, {}).chances().dilates);
  EXPECT_FALSE(formed(pixels, {kAsFloat}, {}).chances().dilates);
  EXPECT_FALSE(formed(pixels, {{"random_mask", {{"ratio", 0.5}}}}, {}).chances().dilates);
}

// With the crop first, what is left may be a table, so that bytes can travel.
TEST(PipelineForms, CropsFirstMakeRoomForATable) {
  const SampleType pixels = type_of(Element::uint8, {3, 20, 20});
  const std::vector<Transform> transforms = {kAsFloat, crop(8, 8), kNormalize};
  EXPECT_EQ(formed(pixels, transforms, {}).table(), nullptr);
  EXPECT_NE(formed(pixels, transforms, {.crops_first = true}).table(), nullptr);
}

// Errors name the place in the recipe, not where a transform was moved to.
TEST(PipelineForms, ErrorsAreThoseOfTheRecipe) {
  const SampleType pixels = type_of(Element::uint8, {3, 20, 20});
  for (const PipelineForm& form : all_forms()) {
    const auto large = Pipeline::compile(pixels, std::vector{kAsFloat, center(21)}, 1, form);
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().where, "input[1].center_crop");
  }
}

// The declarations are what the stages are.
TEST(TransformKinds, DeclareTheirStages) {
  const SampleType files = type_of(Element::encoded, {3, 20, 20});
  const SampleType pixels = type_of(Element::uint8, {3, 20, 20});
  for (const Transform& transform :
       {kDecoded, crop(3, 3), center(3), kMask, kAsYuv, kAsFloat, kScaled, kNormalize, kFlip, kPad,
        kTurn, kErase, kAugment, Transform{"resize", {{"size", 5}}}}) {
    SCOPED_TRACE(transform.type);
    const TransformKind& kind = *find_transform(transform.type);
    const auto stage = kind.make(transform, kind.takes_encoded ? files : pixels);
    ASSERT_TRUE(stage);
    EXPECT_EQ(dynamic_cast<const CutStage*>(stage->get()) != nullptr,
              kind.geometry == Geometry::cuts);
    EXPECT_EQ(dynamic_cast<const MirrorStage*>(stage->get()) != nullptr,
              kind.geometry == Geometry::mirrors);
    EXPECT_EQ(dynamic_cast<const PartStage*>(stage->get()) != nullptr, kind.gives_parts);
    EXPECT_EQ(dynamic_cast<const PixelStage*>(stage->get()) != nullptr, kind.is_pixel_wise);
    EXPECT_TRUE(kind.is_pixel_wise || !kind.is_point_wise);
    EXPECT_TRUE(kind.geometry == Geometry::keeps || !kind.is_pixel_wise);
  }
}

// Pictures of noise, read from nowhere.
class Noise final : public NumberedDataset {
 public:
  using NumberedDataset::NumberedDataset;
  SampleType type() const override { return type_of(Element::uint8, {3, 12, 16}); }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    if (on_read) {
      if (auto allowed = on_read(index); !allowed) return allowed;
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint8_t>(mix64(static_cast<std::uint64_t>(index) * 1000 + i));
    return {};
  }
};

const std::vector<Transform> kLoaded = {kAsFloat, crop(6, 6), kMask, kAsYuv, kScaled};

// Two epochs and a bit of what a loader gives, whose pipeline is another one every few batches.
std::vector<std::vector<float>> samples_of(const std::vector<const Pipeline*>& forms, int workers) {
  const Noise dataset(22);
  constexpr std::size_t kBatch = 4;
  constexpr std::size_t kElements = 108;
  std::vector<std::vector<float>> images(5, std::vector<float>(kBatch * kElements));
  std::vector<std::vector<std::int64_t>> labels(images.size(), std::vector<std::int64_t>(kBatch));
  LoaderSettings settings{.workers = workers, .batch_size = kBatch, .drop_last = false};
  for (std::size_t i = 0; i < images.size(); ++i)
    settings.ring.push_back({images[i].data(), labels[i].data()});
  auto loader = Loader::create(dataset, {.seed = 5}, *forms.front(), settings);
  EXPECT_TRUE(loader);
  (*loader)->resume();
  std::vector<std::vector<float>> samples;
  std::size_t switches = 0;
  for (std::size_t n = 0; samples.size() < 60; ++n) {
    if (n % 3 == 2) {
      // Steps of five go through all kinds of the forms, one after the other.
      settings.pipeline = forms[(5 * switches + 1) % forms.size()];
      settings.workers = workers == 0 ? 0 : 1 + static_cast<int>(switches) % workers;
      ++switches;
      EXPECT_TRUE((*loader)->reconfigure(settings));
    }
    const auto batch = (*loader)->next();
    EXPECT_TRUE(batch);
    const float* from = images[static_cast<std::size_t>(batch->slot)].data();
    for (std::int64_t i = 0; i < batch->samples; ++i, from += kElements)
      samples.emplace_back(from, from + kElements);
    (*loader)->release(batch->slot);
  }
  samples.resize(60);
  return samples;
}

TEST(PipelineForms, SwitchInALoaderThatRuns) {
  std::vector<Pipeline> made;
  for (const PipelineForm& form : all_forms())
    made.push_back(formed(Noise(1).type(), kLoaded, form));
  std::vector<const Pipeline*> forms;
  for (const Pipeline& one : made)
    forms.push_back(&one);
  ASSERT_EQ(forms.size(), 48U);
  const auto expected = samples_of({forms.front()}, 0);
  EXPECT_EQ(std::set<std::vector<float>>(expected.begin(), expected.end()).size(), 60U);
  for (const int workers : {0, 1, 3}) {
    EXPECT_EQ(samples_of(forms, workers), expected) << workers;
    EXPECT_EQ(samples_of({forms[8]}, workers), expected) << workers;  // per batch throughout
  }
}

TEST(PipelineForms, AFailedSampleFailsItsBatchAlsoPerBatch) {
  Noise dataset(22);
  dataset.on_read = [](std::int64_t index) -> Result<void> {
    if (index == 9) return fail(ErrorKind::corrupt, "is broken");
    return {};
  };
  const Pipeline pipeline = formed(dataset.type(), kLoaded, {.point_ops = PointOps::per_batch});
  std::vector<std::vector<float>> images(3, std::vector<float>(4 * 108));
  std::vector<std::vector<std::int64_t>> labels(3, std::vector<std::int64_t>(4));
  LoaderSettings settings{.workers = 2, .batch_size = 4};
  for (std::size_t i = 0; i < images.size(); ++i)
    settings.ring.push_back({images[i].data(), labels[i].data()});
  auto loader = Loader::create(dataset, {.is_shuffled = false}, pipeline, settings);
  ASSERT_TRUE(loader);
  (*loader)->resume();
  for (int i = 0; i < 2; ++i) {
    const auto batch = (*loader)->next();
    ASSERT_TRUE(batch);
    (*loader)->release(batch->slot);
  }
  const auto broken = (*loader)->next();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().where, "sample 9 of the data");
}

}  // namespace
}  // namespace autotuned::input
