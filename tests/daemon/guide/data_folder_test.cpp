// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/data_folder.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cstddef>

#include "daemon/guide/label_peek.hpp"
#include "daemon/guide/picture_header.hpp"
#include "daemon/guide/text_files.hpp"
#include "tests/daemon/guide/data_samples.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DataFolder look(const TemporaryFolder& folder) {
  const auto found = look_at_data(folder.path(), folder.path());
  EXPECT_TRUE(found) << found.error().message();
  return found.value_or(DataFolder{});
}

// All that is known of what lies there.
std::string told(const DataFolder& found) {
  constexpr std::array kSamples = {"none", "pictures", "arrays", "tokens"};
  constexpr std::array kTargets = {"classes", "numbers", "tags"};
  std::string text = found.found + "\n  data: {" + found.data + "}\n";
  if (!found.test_data.empty()) text += "  test data: {" + found.test_data + "}\n";
  text += "  " + std::to_string(found.count) + " samples, " +
          kSamples.at(static_cast<std::size_t>(found.samples)) + "; " +
          std::to_string(found.classes) + " outputs, " +
          kTargets.at(static_cast<std::size_t>(found.targets)) + "\n";
  if (found.shorter_side > 0)
    text += "  shorter side: " + std::to_string(found.shorter_side) + "\n";
  if (!found.are_bytes) text += "  floats\n";
  if (found.has_masks) text += "  with masks\n";
  if (!found.has_labels) text += "  without labels\n";
  for (const std::string& note : found.notes)
    text += "  note: " + note + "\n";
  return text;
}

TEST(DataFolders, AreKnownByWhatLiesInThem) {
  std::string text;
  for (const std::string& kind : tests::kinds_of_data()) {
    const TemporaryFolder folder;
    tests::write_data(folder, "", kind);
    text += kind + ": " + tests::with_here(told(look(folder)), folder.path());
  }
  tests::expect_golden("daemon/guide/golden/data_folders.txt", text);
}

TEST(DataFolders, OtherPicturesAreLeftOutWithANote) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "classes");
  folder.write("cat/old.webp", "x");
  folder.write("notes/readme.txt", "no class");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.found, "60 pictures in 3 classes");
  EXPECT_THAT(found.notes, ElementsAre("left out: 1 picture in other forms than JPEG and PNG"));
}

TEST(DataFolders, WhatIsHiddenOrNoFileIsLeftOutWithANote) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "classes");
  folder.write("cat/.hidden.jpg", "x");
  folder.write("cat/.DS_Store", "x");  // no picture
  folder.write(".fish/1.jpg", "x");
  std::filesystem::create_symlink("gone.jpg", folder / "cat/link.jpg");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.found, "60 pictures in 3 classes");
  EXPECT_THAT(found.notes, ElementsAre("left out: 2 hidden names, such as .hidden.jpg",
                                       HasSubstr("left out: 1 name of no file, such as link.jpg")));
}

TEST(DataFolders, PicturesWithMasks) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "masks");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.samples, Samples::pictures);
  EXPECT_TRUE(found.has_masks);
  EXPECT_EQ(found.found, "12 pictures with masks");
  EXPECT_EQ(found.count, 12);
  EXPECT_EQ(found.classes, 2);
  EXPECT_EQ(found.masks_text,
            "12 masks were read: the pixels have the numbers 0, 1, 255, of which 255 does not "
            "count.");
}

// Two folders of pictures are classes, whatever their names.
TEST(DataFolders, AFolderOfMasksHasAMaskForEachPicture) {
  const TemporaryFolder folder;
  for (const char* name : {"images/a.jpg", "images/b.jpg", "masks/c.png"})
    folder.write(name, tests::small_picture());
  EXPECT_FALSE(look(folder).has_masks);
  EXPECT_EQ(look(folder).classes, 2);
}

TEST(DataFolders, EndingsOfMasksAreThoseOfTheFiles) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    folder.write("images/" + std::string(name) + ".jpg", tests::small_picture());
    folder.write("masks/" + std::string(name) + ".PNG", tests::small_mask());
  }
  EXPECT_THAT(look(folder).data, HasSubstr(R"(masks: "masks/*.PNG", )"));
  folder.write("masks/c.png", tests::small_mask());
  EXPECT_THAT(look(folder).data, HasSubstr(R"(masks: ["masks/*.PNG", "masks/*.png"], )"));
}

TEST(DataFolders, PicturesWithMasksForTests) {
  const TemporaryFolder folder;
  tests::write_data(folder, "train/", "masks");
  tests::write_data(folder, "val/", "masks");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.found, "12 pictures with masks, 12 more for tests");
  EXPECT_THAT(found.data, HasSubstr(R"(masks: "train/masks/*.png")"));
  EXPECT_THAT(found.test_data, HasSubstr(R"("val/images/*.jpg")"));
}

// The trainer would refuse them.
TEST(DataFolders, ValidationWithClassesOfItsOwnIsLeftOut) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "parts");
  folder.write("val/fish/1.jpg", tests::small_picture());
  const DataFolder found = look(folder);
  EXPECT_THAT(found.test_data, IsEmpty());
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("its class fish is none of the training's")));
}

TEST(DataFolders, ATableOfOtherThingsIsNone) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "table");
  folder.write("prices.csv", "bread,2\nmilk,1\n");
  EXPECT_EQ(look(folder).data, "type: image_index, index: table.csv");
}

TEST(DataFolders, TablesOfTestsLieBesideTheirTraining) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "numbers");
  folder.write("val.csv", "file,age,height\nall/1.jpg,1,2.5\nall/2.jpg,2,2\n");
  folder.write("test.csv", "file,age\nall/1.jpg,1.5\nall/2.jpg,2\n");
  folder.write("faces.csv", "file,age\nall/1.jpg,1.5\nall/2.jpg,unknown\n");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.data, "type: image_targets, index: table.tsv");
  EXPECT_EQ(found.test_data, "type: image_targets, index: val.csv");
  EXPECT_THAT(found.found, HasSubstr(", 2 more in val.csv"));
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("table test.csv is left out: it has other columns"),
                          HasSubstr("table faces.csv is left out: line 3 has \"unknown\"")));
}

TEST(DataFolders, FoldersMayBeClassesBesideATable) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "classes");
  folder.write("widths.csv", "file,width\ncat/1.jpg,3.5\ndog/1.jpg,2\n");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.targets, TargetKind::numbers);
  EXPECT_THAT(found.notes,
              ElementsAre("the folders could be classes (60 pictures in 3 classes): for these, "
                          "move the table widths.csv elsewhere"));
}

TEST(DataFolders, TextsAreLongAndWithoutPictures) {
  const TemporaryFolder texts;
  tests::write_data(texts, "", "text");
  texts.write("cat.jpg", tests::small_picture());
  EXPECT_EQ(look(texts).samples, Samples::pictures) << "pictures come first";
  const TemporaryFolder few;
  few.write("readme.txt", std::string(1000, 'a'));
  EXPECT_EQ(look(few).samples, Samples::none);
}

TEST(DataFolders, OneTextMayBeNamed) {
  const TemporaryFolder folder;
  const auto file = folder.write("my book.TXT", std::string(1280, 'a'));
  ASSERT_TRUE(is_text_file(file));
  EXPECT_FALSE(is_text_file("table.csv"));
  const DataFolder found = look_at_text(file, folder.path());
  EXPECT_EQ(found.found, "a text of 1,280 bytes in my book.TXT");
  EXPECT_EQ(found.data, R"(type: tokens, files: "my book.TXT", context: 128)");
  EXPECT_EQ(found.count, 10);
}

TEST(DataFolders, PicklesAreNeverOpened) {
  const TemporaryFolder folder;
  folder.write("data_batch_1", "\x80\x02pickled");
  const DataFolder found = look(folder);
  EXPECT_EQ(found.samples, Samples::none);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("unpack the binary version")));
}

TEST(DataFolders, NamesAreOfTheFolderOfTheRecipe) {
  const TemporaryFolder folder;
  tests::write_data(folder, "photos [1]/", "classes");
  const auto below = look_at_data(folder / "photos [1]", folder.path());
  ASSERT_TRUE(below);
  EXPECT_THAT(below->data, HasSubstr(R"("photos \\[1]/*/*.jpg")"));
  const auto elsewhere = look_at_data(folder / "photos [1]", "/nowhere");
  ASSERT_TRUE(elsewhere);
  EXPECT_THAT(elsewhere->data, HasSubstr("\"" + folder.path().string()));
}

TEST(DataFolders, AreLookedAtOnlySoFar) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "classes");
  const auto found = look_at_data(folder.path(), folder.path(), 30);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->found, testing::StartsWith("more than "));
  EXPECT_LT(found->count, 60);
  const auto missing = look_at_data(folder / "none", folder.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
}

TEST(PictureHeaders, TellTheShorterSide) {
  EXPECT_EQ(shorter_side(tests::small_picture()), 37);
  std::ifstream input(tests::source_folder() / "tests/trainer/input/data/png_rgb.png",
                      std::ios::binary);
  const std::string png{std::istreambuf_iterator<char>(input), {}};
  EXPECT_GT(shorter_side(png), 0);
  EXPECT_EQ(shorter_side(png.substr(0, 20)), 0);
  EXPECT_EQ(shorter_side(""), 0);
  EXPECT_EQ(shorter_side("\xFF\xD8\xFF\xE0"), 0);
  // A segment that claims to be longer than the file.
  EXPECT_EQ(shorter_side(std::string("\xFF\xD8\xFF\xE0\xFF\xFF") + std::string(20, 'x')), 0);
}

TEST(LabelPeeks, KnowNothingOfDamagedFiles) {
  const TemporaryFolder folder;
  const auto file = folder.write("y.npy", "\x93NUMPY\x01");
  EXPECT_FALSE(classes_in_array(file));
  EXPECT_FALSE(classes_in_array(folder.write("z.npy", "")));
  EXPECT_FALSE(classes_in_array(folder.write("w.npy", input::npy_file("<f4", "(1,)", "abcd"))));
  EXPECT_FALSE(array_form_of(folder.write("v.npy", input::npy_file(">i8", "(1,)", "abcdefgh"))));
  EXPECT_FALSE(classes_in_shard(folder.write("s.tar", std::string(700, 'x'))));
  EXPECT_FALSE(classes_in_shard(folder.write("e.tar", input::tar_end())));
}

TEST(YamlTexts, AreQuotedWhereTheyMeanSomethingElse) {
  EXPECT_EQ(yaml_text("photos/a.csv"), "photos/a.csv");
  EXPECT_EQ(yaml_text("a: b.csv"), R"("a: b.csv")");
  EXPECT_EQ(yaml_text("1.5"), R"("1.5")");
  EXPECT_EQ(yaml_text("it's \"x\".csv"), R"("it's \"x\".csv")");
}

}  // namespace
}  // namespace autotuned::daemon
