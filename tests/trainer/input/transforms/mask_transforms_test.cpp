// SPDX-License-Identifier: Apache-2.0
// Class masks are moved as their pictures are, by the same draws, and nothing else is done to them.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/trainer/input/fixtures.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr SampleShape kShape{3, 17, 23};

// Numbers that differ from those around them.
std::vector<std::uint8_t> mask_pixels(int height, int width) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      pixels.push_back(static_cast<std::uint8_t>((y * 37 + x * 11) % 251));
  return pixels;
}

// A picture that has its mask in all channels.
std::vector<std::uint8_t> picture_of(const std::vector<std::uint8_t>& mask) {
  std::vector<std::uint8_t> picture;
  for (int channel = 0; channel < kShape.channels; ++channel)
    picture.insert(picture.end(), mask.begin(), mask.end());
  return picture;
}

Pipeline with_masks(const SampleType& stored, const std::vector<Transform>& transforms,
                    PipelineForm form = {}) {
  auto pipeline = Pipeline::compile(stored, transforms, 1, form, /*has_masks=*/true);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  return pipeline ? std::move(*pipeline) : Pipeline();
}

Sample mask_sample(const SampleShape& shape, const std::vector<std::uint8_t>& pixels) {
  return {Element::uint8, {1, shape.height, shape.width}, pixels};
}

std::vector<std::uint8_t> moved(const Pipeline& pipeline, const Sample& mask,
                                Position position = {}) {
  std::vector<std::uint8_t> out(pipeline.mask_bytes());
  auto scratch = pipeline.make_scratch();
  const auto done = pipeline.run_mask(mask, position, out.data(), scratch);
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return out;
}

TEST(ClassMasks, MoveWithTheirPictures) {
  const std::vector<std::uint8_t> mask = mask_pixels(kShape.height, kShape.width);
  const std::vector<std::uint8_t> pixels = picture_of(mask);
  const Sample picture{Element::uint8, kShape, pixels};
  const Json fill = 255;  // what comes from outside has no class
  const std::vector<std::vector<Transform>> cases = {
      {{"random_crop", {{"size", {9, 10}}}}},
      {{"center_crop", {{"size", 8}}}},
      {{"random_flip", Json::object()}},
      {{"random_rotation", {{"degrees", 40}, {"fill", fill}}}},
      {{"pad", {{"by", {1, 2, 3, 4}}, {"fill", fill}}}},
      {{"pad", {{"by", 3}, {"mode", "reflect"}}}},
      {{"random_flip", Json::object()},
       {"pad", {{"by", 2}, {"fill", fill}}},
       {"random_rotation", {{"degrees", {10, 60}}, {"fill", fill}}},
       {"random_flip", {{"probability", 0.3}}},
       {"random_crop", {{"size", 11}}}}};
  for (const std::vector<Transform>& transforms : cases) {
    SCOPED_TRACE(transforms.front().type + " and " + std::to_string(transforms.size() - 1));
    for (const bool crops_first : {false, true}) {
      const Pipeline pipeline =
          with_masks(type_of(Element::uint8, kShape), transforms, {.crops_first = crops_first});
      const std::size_t size = pipeline.mask_bytes();
      ASSERT_EQ(size * 3, static_cast<std::size_t>(pipeline.shape().elements()));
      for (std::int64_t i = 0; i < 12; ++i) {
        const auto expected = run<std::uint8_t>(pipeline, picture, {1, i});
        EXPECT_EQ(moved(pipeline, mask_sample(kShape, mask), {1, i}),
                  std::vector(expected.begin(), expected.begin() + static_cast<long>(size)));
      }
    }
  }
}

TEST(ClassMasks, ComeFromOutsideWithoutAClass) {
  const std::vector<std::uint8_t> mask(static_cast<std::size_t>(kShape.height * kShape.width), 3);
  for (const Transform& transform :
       {Transform{"pad", {{"by", 2}, {"fill", {1, 2, 3}}}},
        Transform{"random_rotation", {{"degrees", {45, 45}}, {"fill", 9}}}}) {
    const Pipeline pipeline = with_masks(type_of(Element::uint8, kShape), {transform});
    const auto out = moved(pipeline, mask_sample(kShape, mask));
    EXPECT_EQ((std::set(out.begin(), out.end())), (std::set<std::uint8_t>{3, kNoClass}))
        << transform.type;
  }
}

TEST(ClassMasks, KeepWhatOnlyColoursChange) {
  const std::vector<std::uint8_t> mask = mask_pixels(kShape.height, kShape.width);
  const Pipeline pipeline = with_masks(type_of(Element::uint8, kShape),
                                       {{"color_jitter", {{"brightness", 0.5}, {"hue", 0.2}}},
                                        {"random_erasing", {{"probability", 1}}},
                                        {"random_mask", {{"ratio", 0.5}}},
                                        {"rgb_to_yuv", Json::object()},
                                        {"normalize", {{"mean", 127}, {"std", 50}}}});
  EXPECT_EQ(moved(pipeline, mask_sample(kShape, mask)), mask);
  EXPECT_EQ(pipeline.parts().back(), "masks");
}

// A part of random size becomes one of a given size: of the nearest pixels of that very part.
TEST(ClassMasks, AreCutAndResizedWithTheirPictures) {
  std::vector<std::uint8_t> mask;  // the place of each pixel, row by row, on 10 x 20 squares
  const SampleShape shape{3, 100, 200};
  for (int y = 0; y < shape.height; ++y)
    for (int x = 0; x < shape.width; ++x)
      mask.push_back(static_cast<std::uint8_t>(y / 10 * 20 + x / 10));
  const std::vector<std::uint8_t> pixels = picture_of(mask);
  const Pipeline pipeline =
      with_masks(type_of(Element::uint8, shape), {{"random_resized_crop", {{"size", {25, 30}}}}});
  int near = 0;
  for (std::int64_t i = 0; i < 10; ++i) {
    const auto picture = run<std::uint8_t>(pipeline, {Element::uint8, shape, pixels}, {0, i});
    const auto out = moved(pipeline, mask_sample(shape, mask), {0, i});
    for (std::size_t k = 0; k < out.size(); ++k)
      near += std::abs(static_cast<int>(picture[k]) - static_cast<int>(out[k])) <= 21 ? 1 : 0;
  }
  EXPECT_GT(near, 10 * 25 * 30 * 95 / 100);
}

// tests/trainer/input/data/make_masks.py has these of torchvision.transforms.v2 and tv_tensors.Mask.
TEST(ClassMasks, AreThoseOfTorchvision) {
  const auto bytes = bytes_of_file(fixture_path("masks.json"));
  const Json cases = Json::parse(bytes.begin(), bytes.end());
  ASSERT_GE(cases.size(), 10U);
  for (const Json& one : cases) {
    SCOPED_TRACE(one.at("transform").dump() + " " + one.at("shape").dump());
    const SampleShape shape{3, one.at("shape").at(0), one.at("shape").at(1)};
    const Json& transform = one.at("transform");
    const std::vector<Transform> transforms = {
        {transform.at("type").get<std::string>(), transform.at("parameters")}};
    const Pipeline pipeline = with_masks(type_of(Element::uint8, shape), transforms);
    EXPECT_EQ(pipeline.shape().height, one.at("result_shape").at(0));
    EXPECT_EQ(pipeline.shape().width, one.at("result_shape").at(1));
    const auto mask = mask_pixels(shape.height, shape.width);
    EXPECT_EQ(Json(moved(pipeline, mask_sample(shape, mask))), one.at("result"));
  }
}

TEST(ClassMasks, RefuseWhatTheyCannotFollow) {
  const std::vector<Transform> moving = {{"rand_augment", Json::object()}};
  const auto refused =
      Pipeline::compile(type_of(Element::uint8, kShape), moving, 1, {}, /*has_masks=*/true);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("input[0].rand_augment"), HasSubstr("masks cannot follow")));
  EXPECT_TRUE(Pipeline::compile(type_of(Element::uint8, kShape), moving, 1));
}

TEST(ClassMasks, HaveTheSizeOfTheirPictures) {
  const Pipeline fixed = with_masks(type_of(Element::uint8, kShape), {});
  SampleType any = type_of(Element::uint8, kShape);
  any.height = {10, 30};
  const Pipeline cropped = with_masks(any, {{"center_crop", {{"size", 8}}}});
  const std::vector<std::uint8_t> mask = mask_pixels(40, 23);
  for (const Pipeline* const pipeline : {&fixed, &cropped}) {
    std::vector<std::uint8_t> out(pipeline->mask_bytes());
    auto scratch = pipeline->make_scratch();
    const auto done = pipeline->run_mask(mask_sample({1, 40, 23}, mask), {}, out.data(), scratch);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message(), HasSubstr("the mask has 40 x 23 pixels"));
  }
}

}  // namespace
}  // namespace autotuned::input
