// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_decoder.hpp"

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
