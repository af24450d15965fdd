// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/png_decoder.hpp"

#include <gmock/gmock.h>
#include <zlib.h>

#include <string>

#include "tests/trainer/input/decoder_checks.hpp"
#include "trainer/input/decode/picture_decoder.hpp"

namespace autotuned::input {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

TEST(PngDecoder, GivesTheBytesOfPil) {
  PngDecoder decoder;
  int compared = 0;
  for (const auto& [name, facts] : fixture_index().items()) {
    if (!facts.contains("png")) continue;
    SCOPED_TRACE(name);
    const Fixture expected = fixture(name);
    const auto file = file_of(facts["png"]);
    EXPECT_EQ(decoder.begin(file).value_or(SampleShape{}), expected.shape);
    const auto picture = decode(decoder, file);
    ASSERT_TRUE(picture) << picture.error().message();
    EXPECT_THAT(*picture, ElementsAreArray(expected.bytes));
    ++compared;
  }
  EXPECT_EQ(compared, 14);
}

TEST(PngDecoder, APartHasTheBytesOfTheWhole) {
  PngDecoder decoder;
  for (const char* name : {"png_rgb", "png_palette_2bit", "png_interlaced", "png_grey_alpha"}) {
    const Fixture whole = fixture(name);
    const auto file = file_of(std::string(name) + ".png");
    for (const Window part : {Window{0, 0, 19, 26}, Window{0, 0, 1, 1}, Window{18, 25, 1, 1},
                              Window{3, 5, 7, 11}, Window{12, 0, 7, 26}}) {
      ASSERT_TRUE(decoder.begin(file));
      std::vector<std::uint8_t> got(static_cast<std::size_t>(3 * part.height * part.width));
      ASSERT_TRUE(decoder.decode_part(part, got.data()));
      EXPECT_EQ(got, part_of(whole.bytes, whole.shape, part))
          << name << " " << part.top << " " << part.left;
    }
  }
}

TEST(PngDecoder, RefusesWhatIsNoPictureForUs) {
  PngDecoder decoder;
  const auto grey = decoder.begin(file_of("grey16.png"));
  ASSERT_FALSE(grey);
  EXPECT_EQ(grey.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(grey.error().what, HasSubstr("16 bits"));
  EXPECT_FALSE(decoder.begin({}));
  EXPECT_EQ(decoder.begin(file_of("grey_1x1.jpg")).error().kind, ErrorKind::corrupt);
  // 100,000 x 100,000 pixels in a header that is right otherwise.
  auto huge = file_of("png_rgb.png");
  constexpr std::size_t kHeader = 12;  // its name, 13 bytes, the sum of both
  for (const std::size_t side : {std::size_t{4}, std::size_t{8}}) {
    huge[kHeader + side + 1] = 0x01;
    huge[kHeader + side + 2] = 0x86;
    huge[kHeader + side + 3] = 0xa0;
  }
  const auto sum = ::crc32(0, huge.data() + kHeader, 17);
  for (std::size_t i = 0; i < 4; ++i)
    huge[kHeader + 17 + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
  const auto claimed = decoder.begin(huge);
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(claimed.error().what, HasSubstr("has 100000 x 100000 pixels"));
  // After all that it still works.
  EXPECT_TRUE(decode(decoder, file_of("png_rgb.png")));
}

// Only the mark of the end, and the sum of the data before it, may be missing.
TEST(PngDecoder, FindsEveryTruncation) {
  expect_truncations_found<PngDecoder>({"png_rgb.png", "png_palette.png", "png_interlaced.png"},
                                       12 + 4 + 4);
}

TEST(PngDecoder, SurvivesEveryDamagedByte) {
  expect_damage_survived<PngDecoder>(
      {"png_rgb.png", "png_palette_transparent.png", "png_interlaced.png"});
}

TEST(PictureDecoder, TakesWhatAFileIs) {
  PictureDecoder decoder;
  for (const char* name : {"png_rgb", "420_16x32", "png_grey", "grey_37x51"}) {
    const Fixture expected = fixture(name);
    const std::string end = std::string(name).starts_with("png") ? ".png" : ".jpg";
    const auto picture = decode(decoder, file_of(name + end));
    ASSERT_TRUE(picture) << picture.error().message();
    EXPECT_EQ(*picture, expected.bytes);
  }
  const std::string text = "GIF89a";
  EXPECT_FALSE(decode(decoder, std::vector<std::uint8_t>(text.begin(), text.end())));
}

}  // namespace
}  // namespace autotuned::input
