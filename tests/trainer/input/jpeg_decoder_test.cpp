// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/jpeg_decoder.hpp"

#include <gmock/gmock.h>

#include "tests/trainer/input/fixtures.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

Result<std::vector<std::uint8_t>> decode(JpegDecoder& decoder, std::span<const std::uint8_t> file) {
  const auto shape = decoder.begin(file);
  if (!shape) return tl::unexpected(shape.error());
  std::vector<std::uint8_t> picture(static_cast<std::size_t>(shape->elements()));
  const auto decoded = decoder.decode(picture.data());
  if (!decoded) return tl::unexpected(decoded.error());
  return picture;
}

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

// Only the mark of the end may be missing.
TEST(JpegDecoder, FindsEveryTruncation) {
  JpegDecoder decoder;
  for (const char* name :
       {"420_37x51.jpg", "progressive_37x51.jpg", "grey_37x51.jpg", "restarts_37x51.jpg"}) {
    const auto file = bytes_of_file(fixture_path(name));
    for (std::size_t length = 0; length < file.size(); ++length) {
      // A copy, so that a read beyond the end is found.
      const std::vector<std::uint8_t> cut(file.begin(),
                                          file.begin() + static_cast<std::ptrdiff_t>(length));
      const auto picture = decode(decoder, cut);
      if (picture) {
        EXPECT_GE(length, file.size() - 2) << name;
        continue;
      }
      EXPECT_EQ(picture.error().kind, ErrorKind::corrupt) << name << " " << length;
    }
    EXPECT_TRUE(decode(decoder, file));
  }
}

// Damage is found or gives another picture; it never does harm.
TEST(JpegDecoder, SurvivesEveryDamagedByte) {
  JpegDecoder decoder;
  for (const char* name : {"420_16x32.jpg", "progressive_16x32.jpg", "restarts_16x32.jpg"}) {
    const auto file = bytes_of_file(fixture_path(name));
    int refused = 0;
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const unsigned flip : {0x01U, 0x80U, 0xffU}) {
        auto damaged = file;
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ flip);
        const auto shape = decoder.begin(damaged);
        if (!shape || shape->elements() > (1 << 20)) continue;  // too slow for a test
        if (!decode(decoder, damaged)) ++refused;
      }
    }
    EXPECT_GT(refused, 0) << name;
    EXPECT_TRUE(decode(decoder, file));
  }
}

}  // namespace
}  // namespace autotuned::input
