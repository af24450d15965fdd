// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/jpeg_decoder.hpp"

#include <gmock/gmock.h>

#include "tests/trainer/input/decoder_checks.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

TEST(JpegDecoder, GivesTheBytesOfPil) {
  JpegDecoder decoder;
  int compared = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!facts.contains("jpeg")) continue;
    SCOPED_TRACE(name);
    const Fixture expected = fixture(name);
    const auto file = bytes_of_file(fixture_path(facts["jpeg"]));
    EXPECT_EQ(decoder.begin(file).value_or(SampleShape{}), expected.shape);
    const auto picture = decode(decoder, file);
    ASSERT_TRUE(picture) << picture.error().message();
    EXPECT_THAT(*picture, ElementsAreArray(expected.bytes));
    ++compared;
  }
  EXPECT_EQ(compared, 12);
}

TEST(JpegDecoder, RefusesWhatIsNoPictureForUs) {
  JpegDecoder decoder;
  const auto cmyk = decoder.begin(bytes_of_file(fixture_path("cmyk.jpg")));
  ASSERT_FALSE(cmyk);
  EXPECT_EQ(cmyk.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(cmyk.error().what, HasSubstr("CMYK"));
  const std::string text = "\x89PNG is another format";
  const auto other = decoder.begin(std::vector<std::uint8_t>(text.begin(), text.end()));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(other.error().what, HasSubstr("not a JPEG"));
  EXPECT_FALSE(decoder.begin({}));
  // After all that it still works.
  EXPECT_TRUE(decode(decoder, bytes_of_file(fixture_path("420_16x32.jpg"))));
}

// The frames of some cameras lack the usual tables.
TEST(JpegDecoder, TakesNoTablesFromThePictureBefore) {
  auto file = file_of("420_16x32.jpg");
  const std::vector<std::uint8_t> tables = {0xff, 0xc4};
  int removed = 0;
  for (auto at = file.begin(); (at = std::ranges::search(file, tables).begin()) != file.end();
       ++removed)
    file.erase(at, at + 2 + at[2] * 256 + at[3]);
  ASSERT_EQ(removed, 4);
  JpegDecoder decoder;
  for (int i = 0; i < 2; ++i) {
    const auto picture = decode(decoder, file);
    ASSERT_TRUE(picture) << picture.error().message();
    EXPECT_EQ(*picture, fixture("420_16x32").bytes);
    ASSERT_TRUE(decode(decoder, file_of("progressive_16x32.jpg")));
  }
}

// Nor their quantisation.
TEST(JpegDecoder, RefusesAFileWithoutQuantisationWhateverCameBefore) {
  const auto whole = file_of("420_16x32.jpg");
  auto file = whole;
  const std::vector<std::uint8_t> tables = {0xff, 0xdb};
  int removed = 0;
  for (auto at = file.begin(); (at = std::ranges::search(file, tables).begin()) != file.end();
       ++removed)
    file.erase(at, at + 2 + at[2] * 256 + at[3]);
  ASSERT_GE(removed, 1);
  JpegDecoder decoder;
  for (int i = 0; i < 3; ++i) {
    const auto picture = decode(decoder, file);
    ASSERT_FALSE(picture);
    EXPECT_EQ(picture.error().kind, ErrorKind::corrupt);
    ASSERT_TRUE(decode(decoder, whole));
    if (i == 1) {
      ASSERT_TRUE(decoder.begin(whole));  // and it is not even decoded
    }
  }
}

// Whatever became of the picture before, and however far it came: decoded, in part, begun, damaged, cut.
TEST(JpegDecoder, KeepsNothingOfThePictureBefore) {
  std::vector<std::vector<std::uint8_t>> files;
  std::vector<std::vector<std::uint8_t>> pictures;
  for (const char* name : {"420_37x51.jpg", "444_16x32.jpg", "progressive_37x51.jpg",
                           "grey_37x51.jpg", "restarts_37x51.jpg", "422_16x32.jpg"}) {
    files.push_back(file_of(name));
    JpegDecoder fresh;
    const auto picture = decode(fresh, files.back());
    ASSERT_TRUE(picture);
    pictures.push_back(*picture);
  }
  JpegDecoder decoder;
  std::vector<std::uint8_t> out(std::size_t{3} * 37 * 51);
  for (const auto& before : files) {
    for (std::size_t after = 0; after < files.size(); ++after) {
      for (int how = 0; how < 6; ++how) {
        auto first = before;
        if (how == 2) first.resize(first.size() * 2 / 3);
        if (how == 3) first.resize(100);
        if (how == 4) first[first.size() / 2] ^= 0x5aU;
        const auto shape = decoder.begin(first);
        if (shape && shape->elements() <= std::ssize(out)) {
          if (how == 5) decoder.shrink(4);
          if (how == 0 || how == 2 || how == 4) (void)decoder.decode(out.data());
          if (how == 1 || how == 5) (void)decoder.decode_part({1, 2, 3, 2}, out.data());
        }
        const auto picture = decode(decoder, files[after]);
        ASSERT_TRUE(picture) << picture.error().message();
        ASSERT_EQ(*picture, pictures[after]) << after << " " << how;
      }
    }
  }
}

// Cameras write how they were held; like PIL we leave the pixels as they are stored.
TEST(JpegDecoder, TurnsNoPictureWhateverItsOrientation) {
  const auto plain = file_of("420_37x51.jpg");
  JpegDecoder decoder;
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation) {
    // APP1 with one entry of TIFF, big-endian: tag 0x0112, one number of 16 bits.
    const std::vector<std::uint8_t> exif = {
        0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M',         0, 42, 0, 0, 0, 8,
        0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   orientation, 0, 0,  0, 0, 0, 0};
    ASSERT_EQ(exif.size(), 2U + 34U);
    auto file = plain;
    file.insert(file.begin() + 2, exif.begin(), exif.end());
    EXPECT_EQ(decoder.begin(file).value_or(SampleShape{}), (SampleShape{3, 37, 51}));
    const auto picture = decode(decoder, file);
    ASSERT_TRUE(picture) << picture.error().message();
    EXPECT_EQ(*picture, fixture("420_37x51").bytes) << static_cast<int>(orientation);
  }
}

// Only the mark of the end may be missing.
TEST(JpegDecoder, FindsEveryTruncation) {
  expect_truncations_found<JpegDecoder>(
      {"420_37x51.jpg", "progressive_37x51.jpg", "grey_37x51.jpg", "restarts_37x51.jpg"}, 2);
}

TEST(JpegDecoder, SurvivesEveryDamagedByte) {
  expect_damage_survived<JpegDecoder>({"420_16x32.jpg", "progressive_16x32.jpg",
                                       "restarts_16x32.jpg", "422_37x51.jpg", "444_16x32.jpg"});
}

}  // namespace
}  // namespace autotuned::input
