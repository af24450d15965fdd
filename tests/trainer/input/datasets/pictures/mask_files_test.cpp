// SPDX-License-Identifier: Apache-2.0
// Pictures with class masks: which mask is whose, what its numbers mean, and what is wrong with it.
#include "trainer/input/datasets/pictures/mask_files.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/png_file.hpp"
#include "trainer/input/datasets/damage_search.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/decode/png_decoder.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

const std::vector<std::uint8_t> kNumbers = {0, 1, 2, 255, 1, 0};

std::string picture(int height = 2, int width = 3) {
  return png_file(height, width,
                  std::vector<std::uint8_t>(
                      static_cast<std::size_t>(height) * static_cast<std::size_t>(width), 7));
}

class ImageMasks : public testing::Test {
 protected:
  // Pictures a, b and c of 2 x 3 pixels, each with that mask.
  void write_three(const std::string& mask = png_file(2, 3, kNumbers)) const {
    for (const char* const name : {"a", "b", "c"}) {
      folder_.write("images/" + std::string(name) + ".png", picture());
      folder_.write("masks/" + std::string(name) + ".png", mask);
    }
  }
  [[nodiscard]] Result<std::unique_ptr<Dataset>> open(Json more = {{"classes", 3}}) const {
    Json parameters = {{"files", (folder_ / "images/*.png").string()},
                       {"masks", (folder_ / "masks/*.png").string()}};
    parameters.update(more);
    return open_dataset("image_masks", parameters);
  }
  [[nodiscard]] std::string error_of(const Json& more = {{"classes", 3}}) const {
    const auto data = open(more);
    EXPECT_FALSE(data);
    return data ? "" : data.error().message();
  }
  static std::vector<int> mask_of(const Dataset& data, std::int64_t index) {
    MaskRoom room;
    const auto shape = data.read_mask(index, room);
    EXPECT_TRUE(shape) << (shape ? "" : shape.error().message());
    EXPECT_EQ(shape.value_or(SampleShape{}), (SampleShape{1, 2, 3}));
    return {room.classes.begin(), room.classes.end()};
  }

  TemporaryFolder folder_;
};

TEST_F(ImageMasks, HaveAClassForEveryPixel) {
  write_three();
  const auto data = open({{"names", {"ground", "cat", "dog"}}, {"repeat_to", 5}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 5);
  EXPECT_EQ((*data)->classes(), 3);
  EXPECT_THAT((*data)->class_names(), ElementsAre("ground", "cat", "dog"));
  EXPECT_TRUE((*data)->target().is_mask());
  EXPECT_EQ((*data)->doubt(), "");
  for (const std::int64_t index : {0, 2, 4})
    EXPECT_THAT(mask_of(**data, index), ElementsAreArray(kNumbers));
}

TEST_F(ImageMasks, AreOfAnyPngWithANumberForEachPixel) {
  const std::vector<std::uint8_t> bits = {0, 1, 1, 0, 1, 0};
  const std::vector<std::uint8_t> few = {0, 1, 2, 2, 1, 0};
  for (const auto& [numbers, kind, depth] :
       {std::tuple{bits, kGreyPng, 1}, std::tuple{bits, kPalettePng, 1},
        std::tuple{few, kGreyPng, 2}, std::tuple{few, kPalettePng, 4},
        std::tuple{few, kPalettePng, 8}}) {
    write_three(png_file(2, 3, numbers, kind, depth));
    const auto data = open();
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_THAT(mask_of(**data, 1), ElementsAreArray(numbers)) << kind << " " << depth;
  }
}

TEST_F(ImageMasks, MayHaveOtherNumbers) {
  write_three(png_file(2, 3, {0, 255, 255, 7, 0, 7}));
  const auto data = open({{"classes", 2}, {"values", {0, 255}}, {"ignore_index", 7}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_THAT(mask_of(**data, 0), ElementsAre(0, 1, 1, kNoClass, 0, kNoClass));
  // Without a list, that number is no class either, and 255 is none of eight.
  EXPECT_THAT(error_of({{"classes", 8}, {"ignore_index", 0}}), HasSubstr("has the number 255"));
}

TEST_F(ImageMasks, AreMatchedByName) {
  EXPECT_THAT(*masks_of({"i/b.jpg", "i/a.jpg", "i/c.d.png"}, {"m/a.png", "m/c.d.png", "m/x.png"}),
              ElementsAre("", "m/a.png", "m/c.d.png"));
  // The same names in several folders: these count, too.
  EXPECT_THAT(*masks_of({"i/one/a.jpg", "i/two/a.jpg"}, {"m/two/a.png", "m/one/a.png"}),
              ElementsAre("m/one/a.png", "m/two/a.png"));
  const auto twice = masks_of({"i/a.jpg", "i/a.png"}, {"m/a.png"});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message(), AllOf(HasSubstr("i/a.png"), HasSubstr("the same name")));
}

TEST_F(ImageMasks, SayWhatIsWrongWithWhichFile) {
  write_three();
  tests::Cases cases(folder_.path());
  std::filesystem::remove(folder_ / "masks/b.png");
  cases.add("a missing mask", error_of());
  const auto add = [&](const std::string& given, const std::string& mask) {
    folder_.write("masks/b.png", mask);
    cases.add(given, error_of());
  };
  add("another size", png_file(3, 2, kNumbers));
  add("the number 4", png_file(2, 3, {0, 1, 2, 1, 4, 255}));
  add("colours", png_file(2, 3, std::vector<std::uint8_t>(18, 1), kColourPng));
  add("no picture", "no picture");
  folder_.write("masks/c.png", png_file(3, 2, kNumbers));
  cases.add("and another size of a second mask", error_of());
  write_three();
  cases.add("a name twice", error_of({{"names", {"a", "a", "b"}}}));
  cases.add("3 names for 2 classes", error_of({{"classes", 2}, {"names", {"a", "b", "c"}}}));
  cases.add("2 values for 3 classes", error_of({{"classes", 3}, {"values", {0, 1}}}));
  cases.add("a value twice", error_of({{"classes", 2}, {"values", {1, 1}}}));
  cases.add("the value 256", error_of({{"classes", 2}, {"values", {1, 256}}}));
  cases.add("256 classes", error_of({{"classes", 256}}));
  tests::expect_golden("trainer/input/datasets/pictures/golden/masks.txt", cases.text());
}

TEST_F(ImageMasks, ThatCannotBeReadAreSkippedWithTheirPictures) {
  write_three();
  folder_.write("masks/b.png", "no picture");
  const auto data = open({{"classes", 3}, {"on_error", "skip"}});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_NE((*data)->damage(), nullptr);
  EXPECT_EQ((*data)->damage()->count(), 1);
  MaskRoom room;
  const auto broken = (*data)->read_mask(1, room);
  ASSERT_FALSE(broken);
  EXPECT_TRUE(is_damage(broken.error()));
  const DamageFound found = search_damage(**data, {"decode", Json::object()}, 1,
                                          std::chrono::seconds(9), [] { return false; });
  ASSERT_EQ(found.errors.size(), 1U);
  EXPECT_THAT(found.errors.front().where, HasSubstr("masks/b.png"));
}

// All of them are told of, with what to do about them, whatever is skipped.
TEST_F(ImageMasks, InColoursAreCountedAndTheRemedyIsTheirs) {
  const std::string colours = png_file(2, 3, std::vector<std::uint8_t>(18, 1), kColourPng);
  for (int i = 10; i < 40; ++i) {
    folder_.write("images/" + std::to_string(i) + ".png", picture());
    folder_.write("masks/" + std::to_string(i) + ".png",
                  i % 3 == 0 ? png_file(2, 3, kNumbers) : colours);
  }
  const Json skips = {{"classes", 3}, {"on_error", "skip"}};
  tests::Cases cases(folder_.path());
  cases.add("20 masks in colours, to be skipped", error_of(skips));
  cases.add("20 masks in colours", error_of());
  folder_.write("masks/11.png", "no picture");
  cases.add("one of them is damaged: they are not of one kind", error_of(skips));
  tests::expect_golden("trainer/input/datasets/pictures/golden/masks_in_colours.txt", cases.text());
}

// That is a mistake of the recipe, which no other sample can stand in for.
TEST_F(ImageMasks, AreNotSkippedForANumberThatIsNoClass) {
  write_three();
  folder_.write("masks/b.png", png_file(2, 3, {9, 9, 9, 9, 9, 9}));
  const auto data = open({{"classes", 3}, {"on_error", "skip"}});
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().kind, ErrorKind::invalid);
  EXPECT_EQ(data.error().where, (folder_ / "masks/b.png").string());
}

// Masks of 0 and 255 as many programs write them: nearly always two classes.
TEST_F(ImageMasks, OfBlackAndWhiteAreDoubted) {
  write_three(png_file(2, 3, {0, 255, 255, 0, 0, 0}));
  const auto data = open({{"classes", 2}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_THAT((*data)->doubt(), HasSubstr("values: [0, 255]"));
  const auto two = open({{"classes", 2}, {"values", {0, 255}}});
  ASSERT_TRUE(two) << two.error().message();
  EXPECT_EQ((*two)->doubt(), "");
}

TEST(PngNumbers, LeaveColoursToTheOtherDecoder) {
  const std::string file = png_file(1, 2, {3, 5}, kPalettePng);
  const std::vector<std::uint8_t> bytes(file.begin(), file.end());
  PngDecoder numbers(PngPixels::numbers);
  const auto shape = numbers.begin(bytes);
  ASSERT_TRUE(shape) << shape.error().message();
  EXPECT_EQ(*shape, (SampleShape{1, 1, 2}));
  std::vector<std::uint8_t> out(2);
  ASSERT_TRUE(numbers.decode(out.data()));
  EXPECT_THAT(out, ElementsAre(3, 5));
  PngDecoder colours;
  ASSERT_TRUE(colours.begin(bytes));
  std::vector<std::uint8_t> rgb(6);
  ASSERT_TRUE(colours.decode(rgb.data()));
  EXPECT_THAT(rgb, ElementsAre(252, 250, 252, 250, 252, 250));
}

TEST(SyntheticMasks, AreInThePictures) {
  const Json parameters = {{"samples", 20}, {"shape", {2, 24, 32}}, {"classes", 3}};
  const auto data = open_dataset("synthetic_masks", parameters);
  ASSERT_TRUE(data) << data.error().message();
  const auto again = open_dataset("synthetic_masks", parameters);
  MaskRoom room;
  MaskRoom other;
  std::vector<double> sums(3);
  std::vector<double> counts(3);
  bool has_edges = false;
  for (std::int64_t i = 0; i < 20; ++i) {
    std::vector<std::uint8_t> pixels(2 * 24 * 32);
    ASSERT_TRUE((*data)->read(i, pixels));
    const auto shape = (*data)->read_mask(i, room);
    ASSERT_TRUE(shape);
    EXPECT_EQ(*shape, (SampleShape{1, 24, 32}));
    ASSERT_TRUE((*again)->read_mask(i, other));
    EXPECT_EQ(room.classes, other.classes);
    for (std::size_t k = 0; k < room.classes.size(); ++k) {
      has_edges |= room.classes[k] == kNoClass;
      if (room.classes[k] == kNoClass) continue;
      ASSERT_LT(room.classes[k], 3);
      sums[room.classes[k]] += pixels[k];
      counts[room.classes[k]] += 1;
    }
  }
  EXPECT_TRUE(has_edges);
  for (std::size_t k = 0; k < 3; ++k)  // half of it is noise with a mean of 127.5
    EXPECT_NEAR(sums[k] / counts[k], (127.5 + 255.0 * (static_cast<double>(k) + 0.5) / 3) / 2, 6);
}

}  // namespace
}  // namespace autotuned::input
