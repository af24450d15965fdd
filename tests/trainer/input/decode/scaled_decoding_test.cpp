// SPDX-License-Identifier: Apache-2.0
// Pictures that are decoded smaller than they are: the bytes of libjpeg's own scaled decoding, whole or in
// parts, and where a pipeline asks for them.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/input/decoder_checks.hpp"
#include "tests/trainer/input/jpeg_files.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"
#include "trainer/input/decode/picture_decoder.hpp"

namespace autotuned::input {
namespace {

struct Picture {
  SampleShape shape;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] Picture part(const Window& part) const {
    return {{3, part.height, part.width}, part_of(bytes, shape, part)};
  }
};

// With libjpeg's calls and nothing of ours.
Picture made_by_libjpeg(const std::vector<std::uint8_t>& file, int by) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(by);
  jpeg_start_decompress(&info);
  const std::size_t width = info.output_width;
  const std::size_t height = info.output_height;
  Picture picture{{3, static_cast<int>(height), static_cast<int>(width)},
                  std::vector<std::uint8_t>(3 * width * height)};
  std::vector<std::uint8_t> row(3 * width);
  for (std::size_t y = 0; y < height; ++y) {
    JSAMPROW line = row.data();
    jpeg_read_scanlines(&info, &line, 1);
    for (std::size_t i = 0; i < row.size(); ++i)
      picture.bytes[(i % 3 * height + y) * width + i / 3] = row[i];
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return picture;
}

Picture resized(const Picture& picture, int size) {
  const Pipeline resize =
      pipeline_of(type_of(Element::uint8, picture.shape), {{"resize", {{"size", size}}}});
  return {{3, size, size},
          run<std::uint8_t>(resize, {Element::uint8, picture.shape, picture.bytes})};
}

Pipeline smaller(const SampleShape& shape, const std::vector<Transform>& transforms,
                 int decode_scale) {
  auto pipeline = Pipeline::compile(type_of(Element::encoded, shape), transforms, 1,
                                    {.decode_scale = decode_scale});
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  return pipeline ? std::move(*pipeline) : Pipeline();
}

Transform resize_to(int size) {
  return {"resize", {{"size", size}}};
}

TEST(ScaledDecoding, GivesTheBytesOfLibjpeg) {
  std::uint64_t seed = 0;
  JpegDecoder decoder;
  for (const auto& [height, width] : {std::pair{97, 131}, {64, 96}, {33, 18}, {5, 70}, {71, 3}}) {
    for (const auto& [across, down] :
         {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {2, 4}}) {
      for (const bool is_progressive : {false, true}) {
        for (const bool is_grey : {false, true}) {
          JpegFile kind{height, width, 88, across, down, is_grey, is_progressive};
          kind.seed = ++seed;
          SCOPED_TRACE(kind.text());
          const auto file = encoded(kind);
          for (const int by : {1, 2, 4, 8}) {
            const Picture expected = made_by_libjpeg(file, by);
            ASSERT_TRUE(decoder.begin(file));
            ASSERT_EQ(decoder.shrink(by), expected.shape) << by;
            std::vector<std::uint8_t> bytes(expected.bytes.size());
            ASSERT_TRUE(decoder.decode(bytes.data()));
            ASSERT_EQ(bytes, expected.bytes) << by;
            for (const Window& part : parts_of(expected.shape, 20, seed)) {
              const Picture there = expected.part(part);
              bytes.resize(there.bytes.size());
              ASSERT_TRUE(decoder.begin(file));
              decoder.shrink(by);
              ASSERT_TRUE(decoder.decode_part(part, bytes.data()));
              ASSERT_EQ(bytes, there.bytes)
                  << "1/" << by << ": " << part.height << " x " << part.width << " at " << part.top
                  << ", " << part.left;
            }
          }
        }
      }
    }
  }
}

// What was asked of the picture before is forgotten.
TEST(ScaledDecoding, IsOfOnePictureOnly) {
  const auto file = file_of("420_37x51.jpg");
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.begin(file));
  EXPECT_EQ(decoder.shrink(4), (SampleShape{3, 10, 13}));
  const auto whole = decode(decoder, file);
  ASSERT_TRUE(whole);
  EXPECT_EQ(*whole, fixture("420_37x51").bytes);
}

TEST(ScaledDecoding, IsAsSmallAsTheResizeAllows) {
  const SampleShape shape{3, 120, 160};
  const auto file = encoded({shape.height, shape.width, 90, 2, 2});
  const Sample sample{.element = Element::encoded, .bytes = file};
  for (const auto& [size, most, by] : {std::tuple{61, 8, 1},
                                       {60, 8, 2},
                                       {31, 8, 2},
                                       {30, 8, 4},
                                       {15, 8, 8},
                                       {15, 4, 4},
                                       {15, 1, 1}}) {
    const Pipeline pipeline = smaller(shape, {{"decode_jpeg"}, resize_to(size)}, most);
    EXPECT_EQ(run<std::uint8_t>(pipeline, sample), resized(made_by_libjpeg(file, by), size).bytes)
        << size << ", at most 1/" << most;
  }
}

// The part is where it is in the whole picture, rounded outwards to whole pixels of the smaller one.
TEST(ScaledDecoding, CropsScaleWithIt) {
  const SampleShape shape{3, 120, 160};
  const auto file = encoded({shape.height, shape.width, 90, 2, 1});
  const Sample sample{.element = Element::encoded, .bytes = file};
  for (const auto& [crop, size, by] :
       {std::tuple{96, 20, 4}, {90, 20, 4}, {91, 45, 2}, {37, 19, 1}, {37, 4, 8}}) {
    const int top = static_cast<int>(std::nearbyint((120 - crop) / 2.0));
    const int left = static_cast<int>(std::nearbyint((160 - crop) / 2.0));
    const auto up = [by = by](int at) { return (at + by - 1) / by; };
    const Window part{top / by, left / by, up(top + crop) - top / by, up(left + crop) - left / by};
    const Pipeline pipeline =
        smaller(shape, {{"decode_jpeg"}, {"center_crop", {{"size", crop}}}, resize_to(size)}, 8);
    EXPECT_EQ(run<std::uint8_t>(pipeline, sample),
              resized(made_by_libjpeg(file, by).part(part), size).bytes)
        << crop << " to " << size;
  }
}

// The same part of the same picture, as far as it can be seen.
TEST(ScaledDecoding, RandomPartsAreThoseOfTheWholePicture) {
  const SampleShape shape{3, 301, 407};
  JpegFile kind{shape.height, shape.width, 95, 2, 2};
  kind.content = JpegContent::smooth;
  kind.seed = 5;
  const auto file = encoded(kind);
  const Sample sample{.element = Element::encoded, .bytes = file};
  const std::vector<Transform> transforms = {{"decode"}, {"random_resized_crop", {{"size", 16}}}};
  const Pipeline whole = smaller(shape, transforms, 1);
  const Pipeline small = smaller(shape, transforms, 8);
  int different = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    const auto expected = run<std::uint8_t>(whole, sample, {0, i});
    const auto bytes = run<std::uint8_t>(small, sample, {0, i});
    for (std::size_t at = 0; at < bytes.size(); ++at)
      ASSERT_NEAR(bytes[at], expected[at], 5) << i;
    different += bytes != expected ? 1 : 0;
  }
  EXPECT_GT(different, 10);
}

TEST(ScaledDecoding, LeavesPngPicturesAsTheyAre) {
  const auto file = file_of("png_rgb.png");
  const Sample sample{.element = Element::encoded, .bytes = file};
  const SampleShape shape = fixture("png_rgb").shape;
  for (const std::vector<Transform>& transforms :
       {std::vector<Transform>{{"decode"}, resize_to(4)},
        {{"decode"}, {"random_resized_crop", {{"size", 4}}}}}) {
    for (std::int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(run<std::uint8_t>(smaller(shape, transforms, 8), sample, {0, i}),
                run<std::uint8_t>(smaller(shape, transforms, 1), sample, {0, i}));
    }
  }
}

TEST(ScaledDecoding, GoesWithoutAnIndex) {
  const std::vector<Transform> transforms = {{"decode_jpeg"},
                                             {"random_resized_crop", {{"size", 20}}}};
  const auto is_indexed = [&](int scale, const std::vector<Transform>& of) {
    const auto pipeline =
        Pipeline::compile(type_of(Element::encoded, {3, 120, 160}), of, 1,
                          {.decodes_crop = true, .indexes_jpegs = true, .decode_scale = scale});
    EXPECT_TRUE(pipeline);
    return pipeline->is_indexed();
  };
  EXPECT_TRUE(is_indexed(1, transforms));
  EXPECT_FALSE(is_indexed(2, transforms));
  // Nothing is resized, so that pictures are decoded as they are.
  EXPECT_TRUE(is_indexed(2, {{"decode_jpeg"}, {"random_crop", {{"size", 20}}}}));
}

}  // namespace
}  // namespace autotuned::input
