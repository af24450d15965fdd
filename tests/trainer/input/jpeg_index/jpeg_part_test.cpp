// SPDX-License-Identifier: Apache-2.0
// A part of a picture has the bytes that the whole has there, whatever the file.
#include <gmock/gmock.h>

#include "tests/trainer/input/decoder_checks.hpp"
#include "tests/trainer/input/jpeg_files.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"

namespace autotuned::input {
namespace {

class Parts {
 public:
  explicit Parts(std::vector<std::uint8_t> file) : file_(std::move(file)) {
    shape_ = decoder_.begin(file_).value_or(SampleShape{});
    whole_.resize(static_cast<std::size_t>(shape_.elements()));
    const auto decoded = decoder_.decode(whole_.data());
    EXPECT_TRUE(decoded) << (decoded ? "" : decoded.error().message());
  }

  [[nodiscard]] const SampleShape& shape() const { return shape_; }

  [[nodiscard]] bool is_same(const Window& part) {
    std::vector<std::uint8_t> bytes(
        static_cast<std::size_t>(SampleShape{3, part.height, part.width}.elements()));
    EXPECT_TRUE(decoder_.begin(file_));
    const auto decoded = decoder_.decode_part(part, bytes.data());
    EXPECT_TRUE(decoded) << (decoded ? "" : decoded.error().message());
    return bytes == part_of(whole_, shape_, part);
  }

  void expect_same(int count, std::uint64_t seed) {
    for (const Window& part : parts_of(shape_, count, seed)) {
      EXPECT_TRUE(is_same(part)) << part.height << " x " << part.width << " at " << part.top << ", "
                                 << part.left;
    }
  }

 private:
  JpegDecoder decoder_;
  std::vector<std::uint8_t> file_;
  SampleShape shape_;
  std::vector<std::uint8_t> whole_;
};

TEST(JpegPart, HasTheBytesOfTheWhole) {
  std::uint64_t seed = 0;
  for (const auto& [height, width] : {std::pair{97, 131}, {64, 96}, {33, 18}, {5, 70}, {71, 3}}) {
    for (const int quality : {30, 90, 100}) {
      for (const auto& [across, down] :
           {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {2, 4}}) {
        for (const bool is_progressive : {false, true}) {
          for (const int restart_rows : {0, 1}) {
            const JpegFile file{height, width, quality,        across,
                                down,   false, is_progressive, restart_rows};
            SCOPED_TRACE(file.text());
            Parts(encoded(file)).expect_same(27, ++seed);
          }
        }
      }
    }
  }
}

TEST(JpegPart, OfGreyPictures) {
  std::uint64_t seed = 1000;
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 2}}) {
    for (const bool is_progressive : {false, true}) {
      const JpegFile file{83, 101, 90, across, down, true, is_progressive, 0};
      SCOPED_TRACE(file.text());
      Parts(encoded(file)).expect_same(90, ++seed);
    }
  }
}

// Every column and every line once as the first and once as the last of a part.
TEST(JpegPart, AtEveryColumnAndLine) {
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    const JpegFile file{70, 75, 85, across, down, false, false, 0};
    SCOPED_TRACE(file.text());
    Parts parts(encoded(file));
    for (int at = 0; at < 75; ++at) {
      EXPECT_TRUE(parts.is_same({0, at, 70, 75 - at})) << "columns from " << at;
      EXPECT_TRUE(parts.is_same({20, 0, 20, at + 1})) << "columns to " << at;
    }
    for (int at = 0; at < 70; ++at) {
      EXPECT_TRUE(parts.is_same({at, 9, 70 - at, 33})) << "lines from " << at;
      EXPECT_TRUE(parts.is_same({0, 9, at + 1, 33})) << "lines to " << at;
    }
  }
}

TEST(JpegPart, OfTheFilesThatOthersMade) {
  int compared = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!facts.contains("jpeg")) continue;
    SCOPED_TRACE(name);
    Parts(bytes_of_file(fixture_path(facts["jpeg"])))
        .expect_same(60, static_cast<std::uint64_t>(++compared));
  }
  EXPECT_EQ(compared, 12);
}

// What is above a part or in it is read; damage there is found or gives another picture, never harm.
TEST(JpegPart, SurvivesDamage) {
  JpegDecoder decoder;
  int refused = 0;
  for (const char* name : {"420_37x51.jpg", "progressive_37x51.jpg", "restarts_37x51.jpg"}) {
    const auto file = bytes_of_file(fixture_path(name));
    std::vector<std::uint8_t> out(std::size_t{3} * 16 * 20);
    for (std::size_t at = 0; at < file.size(); ++at) {
      auto damaged = file;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 0x5aU);
      const auto shape = decoder.begin(damaged);
      if (!shape || shape->height < 36 || shape->width < 41 || shape->elements() > (1 << 20))
        continue;
      if (!decoder.decode_part({20, 21, 16, 20}, out.data())) ++refused;
    }
    for (std::size_t length = 0; length < file.size(); ++length) {
      const std::vector<std::uint8_t> cut(file.begin(),
                                          file.begin() + static_cast<std::ptrdiff_t>(length));
      if (decoder.begin(cut) && !decoder.decode_part({20, 21, 16, 20}, out.data())) ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

// What is below a part is not even looked at: that is where the time goes.
TEST(JpegPart, DoesNotReadWhatIsBelow) {
  auto cut = encoded({120, 160, 90, 2, 2, false, false, 0});
  cut.resize(cut.size() * 3 / 4);
  JpegDecoder decoder;
  std::vector<std::uint8_t> out(std::size_t{3} * 120 * 160);
  ASSERT_TRUE(decoder.begin(cut));
  EXPECT_TRUE(decoder.decode_part({0, 0, 8, 8}, out.data()));
  ASSERT_TRUE(decoder.begin(cut));
  EXPECT_FALSE(decoder.decode(out.data()));
}

TEST(JpegPart, APipelineThatCutsGivesTheSame) {
  const JpegFile file{120, 160, 90, 2, 2, false, false, 0};
  const auto bytes = encoded(file);
  const SampleType stored = type_of(Element::encoded, {3, 120, 160});
  const std::vector<Transform> transforms = {
      {"decode_jpeg"},
      {"random_crop", {{"size", {40, 48}}}},
      {"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}},
      {"rgb_to_yuv"},
      {"scale", {{"by", "1/255"}}}};
  const Pipeline whole = pipeline_of(stored, transforms);
  const auto part = Pipeline::compile(stored, transforms, 1,
                                      {.decodes_crop = true, .point_ops = PointOps::fused});
  ASSERT_TRUE(part);
  const Sample sample{Element::encoded, {}, bytes};
  for (std::int64_t i = 0; i < 50; ++i)
    EXPECT_EQ(run<float>(*part, sample, {1, i}), run<float>(whole, sample, {1, i})) << i;

  const auto small = encoded({30, 160, 90, 2, 2, false, false, 0});
  SampleType any = stored;
  any.is_complete = false;
  for (const bool decodes_crop : {false, true}) {
    const auto pipeline = Pipeline::compile(any, transforms, 1, {.decodes_crop = decodes_crop});
    ASSERT_TRUE(pipeline);
    std::vector<float> out(std::size_t{3} * 40 * 48);
    auto scratch = pipeline->make_scratch();
    const auto refused =
        pipeline->run({Element::encoded, {}, small}, {}, PixelType::float32, out.data(), scratch);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what,
              "the picture has 30 x 160 pixels, too few for a crop of 40 x 48 pixels");
  }
}

}  // namespace
}  // namespace autotuned::input
