// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/unlabelled_pictures.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/png_file.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Json parameters_of(const std::vector<std::string>& files, const Json& channels = {}) {
  Json parameters = {{"files", files}};
  if (!channels.is_null()) parameters["channels"] = channels;
  return parameters;
}

// The bytes of one picture with so many channels.
std::vector<std::uint8_t> bytes_read(const std::string& file, int channels) {
  const auto data = open_unlabelled_pictures(parameters_of({file}, channels));
  if (!data) {
    ADD_FAILURE() << data.error().message();
    return {};
  }
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>((*data)->type().shape().elements()));
  const auto read = (*data)->read(0, bytes);
  EXPECT_TRUE(read) << (read ? "" : read.error().message());
  return bytes;
}

TEST(UnlabelledPictures, AreTheFilesInTheirOrder) {
  const TemporaryFolder folder;
  // A name is no pattern.
  const std::string second = folder.write("a[1]*.png", png_file(2, 3, {0, 1, 2, 3, 4, 5})).string();
  const std::string first = fixture_path("444_37x51.jpg").string();
  const auto data = open_unlabelled_pictures(parameters_of({first, second, first}));
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 3);
  EXPECT_EQ((*data)->type().element, Element::encoded);
  EXPECT_TRUE((*data)->target().is_class());
  EXPECT_EQ((*data)->label(1), 0);
  std::vector<std::uint8_t> bytes;
  ASSERT_TRUE((*data)->read_encoded(1, bytes));
  EXPECT_EQ(bytes, bytes_of_file(second));
  ASSERT_TRUE((*data)->read_encoded(2, bytes));
  EXPECT_EQ(bytes, bytes_of_file(first));
}

TEST(UnlabelledPictures, BecomeBytesOfOneOrThreeChannels) {
  const TemporaryFolder folder;
  const std::string grey = folder.write("grey.png", png_file(1, 3, {7, 200, 255})).string();
  EXPECT_THAT(bytes_read(grey, 1), ElementsAre(7, 200, 255));
  EXPECT_THAT(bytes_read(grey, 3), ElementsAre(7, 200, 255, 7, 200, 255, 7, 200, 255));
  // PIL: Image.new("RGB", (1, 1), (R, G, B)).convert("L").getpixel((0, 0))
  const std::string colours =
      folder
          .write("colours.png",
                 png_file(1, 4, {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 200}, kColourPng))
          .string();
  EXPECT_THAT(bytes_read(colours, 1), ElementsAre(76, 150, 29, 38));
}

TEST(UnlabelledPictures, SayWhatTheyCannotBe) {
  const TemporaryFolder folder;
  const std::string small = folder.write("small.png", png_file(1, 3, {1, 2, 3})).string();
  const std::string large = folder.write("large.png", png_file(2, 3, {1, 2, 3, 4, 5, 6})).string();
  EXPECT_TRUE(open_unlabelled_pictures(parameters_of({small, large})));
  const auto mixed = open_unlabelled_pictures(parameters_of({small, large}, 1));
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message(), AllOf(HasSubstr("small.png"), HasSubstr("1 to 2 x 3")));
  EXPECT_FALSE(open_unlabelled_pictures(parameters_of({small}, 2)));
  const auto gone = open_unlabelled_pictures(parameters_of({(folder / "gone.png").string()}));
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message(), HasSubstr("gone.png"));
}

}  // namespace
}  // namespace autotuned::input
