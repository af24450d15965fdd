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

struct FolderCase {
  const char* given;
  void (*write)(const TemporaryFolder& folder);
};

const FolderCase kFolderCases[] = {
    {"pictures in other forms are left out, and a folder without pictures is no class",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "classes");
       folder.write("cat/old.webp", "x");
       folder.write("notes/readme.txt", "no class");
     }},
    {"what is hidden or no file is left out",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "classes");
       folder.write("cat/.hidden.jpg", "x");
       folder.write("cat/.DS_Store", "x");  // no picture
       folder.write(".fish/1.jpg", "x");
       std::filesystem::create_symlink("gone.jpg", folder / "cat/link.jpg");
     }},
    {"two folders of pictures are classes, whatever their names",
     [](const TemporaryFolder& folder) {
       for (const char* name : {"images/a.jpg", "images/b.jpg", "masks/c.png"})
         folder.write(name, tests::small_picture());
     }},
    {"masks that predict has written are no data",
     [](const TemporaryFolder& folder) {
       for (const char* name : {"photos/a.jpg", "photos/b.jpg", "predicted/a.png"})
         folder.write(name, tests::small_picture());
       folder.write("predicted/.autotuned-predicted", "");
     }},
    {"endings of masks are those of the files",
     [](const TemporaryFolder& folder) {
       for (const std::string name : {"a", "b"}) {
         folder.write("images/" + name + ".jpg", tests::small_picture());
         folder.write("masks/" + name + ".PNG", tests::small_mask());
       }
     }},
    {"masks of two endings",
     [](const TemporaryFolder& folder) {
       folder.write("images/a.jpg", tests::small_picture());
       folder.write("images/b.jpg", tests::small_picture());
       folder.write("masks/a.PNG", tests::small_mask());
       folder.write("masks/b.png", tests::small_mask());
     }},
    {"pictures with masks, and more of them for tests",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "train/", "masks");
       tests::write_data(folder, "val/", "masks");
     }},
    {"a validation with classes of its own, which the trainer would refuse",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "parts");
       folder.write("val/fish/1.jpg", tests::small_picture());
     }},
    {"a table of other things is none",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "table");
       folder.write("prices.csv", "bread,2\nmilk,1\n");
     }},
    {"a table of numbers alone",
     [](const TemporaryFolder& folder) {
       folder.write("data.csv", "a,b,kind,y\n1.5,2,cat,3\n2.5,1,dog,4\n");
       folder.write("files.csv", "1.jpg\n2.jpg\n");
     }},
    {"several such tables",
     [](const TemporaryFolder& folder) {
       for (const char* const name : {"a.csv", "b.tsv", "c.csv", "d.csv"})
         folder.write(name, "bread,2\nmilk,1\n");
     }},
    {"a table of tests lies beside that of the training, and two do not fit it",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "numbers");
       folder.write("val.csv", "file,age,height\nall/1.jpg,1,2.5\nall/2.jpg,2,2\n");
       folder.write("test.csv", "file,age\nall/1.jpg,1.5\nall/2.jpg,2\n");
       folder.write("faces.csv", "file,age\nall/1.jpg,1.5\nall/2.jpg,unknown\n");
     }},
    {"folders that may be classes beside a table",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "classes");
       folder.write("widths.csv", "file,width\ncat/1.jpg,3.5\ndog/1.jpg,2\n");
     }},
    {"pictures come before texts",
     [](const TemporaryFolder& folder) {
       tests::write_data(folder, "", "text");
       folder.write("cat.jpg", tests::small_picture());
     }},
    {"a text that is too short",
     [](const TemporaryFolder& folder) { folder.write("readme.txt", std::string(1000, 'a')); }},
    {"a pickle, which is never opened",
     [](const TemporaryFolder& folder) { folder.write("data_batch_1", "\x80\x02pickled"); }},
};

TEST(DataFolders, SayWhatTheyLeaveOut) {
  std::string text;
  for (const FolderCase& one : kFolderCases) {
    const TemporaryFolder folder;
    one.write(folder);
    text += std::string(one.given) + ": " + tests::with_here(told(look(folder)), folder.path());
  }
  const TemporaryFolder folder;
  tests::write_data(folder, "photos [1]/", "classes");
  const auto below = look_at_data(folder / "photos [1]", folder.path());
  const auto elsewhere = look_at_data(folder / "photos [1]", "/nowhere");
  ASSERT_TRUE(below && elsewhere);
  text += "named from the folder of the recipe: " + told(*below) +
          "from one elsewhere: " + tests::with_here(told(*elsewhere), folder.path());
  tests::expect_golden("daemon/guide/golden/data_left_out.txt", text);
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
