// SPDX-License-Identifier: Apache-2.0
// Data whose targets are numbers: tables of them, and data made up.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/datasets/pictures/picture_table.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NumberTable : public testing::Test {
 protected:
  [[nodiscard]] Result<PictureTable> read(const std::string& text,
                                          const char* name = "table.csv") const {
    folder_.write(name, text);
    return read_number_table(folder_ / name);
  }
  [[nodiscard]] std::string error_of(const std::string& text) const {
    const auto table = read(text);
    EXPECT_FALSE(table);
    return table ? "" : table.error().message();
  }

  TemporaryFolder folder_;
};

TEST_F(NumberTable, HasNumbersForEveryFile) {
  const auto table = read("a.png,1,-2.5\n\"more/b, c.png\", 3e2 ,0.125\r\n\n");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_THAT(table->files,
              ElementsAre((folder_ / "a.png").string(), (folder_ / "more/b, c.png").string()));
  EXPECT_EQ(table->width, 2);
  EXPECT_THAT(table->values, ElementsAre(1.0F, -2.5F, 300.0F, 0.125F));
  EXPECT_THAT(table->names, IsEmpty());
}

TEST_F(NumberTable, MayHaveAHeadingAndTabs) {
  const auto table = read("file\tage\theight, m\na.png\t7\t1.5\n", "table.tsv");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_THAT(table->names, ElementsAre("age", "height, m"));
  EXPECT_THAT(table->values, ElementsAre(7.0F, 1.5F));
  // Data to test on must have the same columns, or none with names.
  const auto known = [&](std::vector<std::string> names) {
    return read_number_table(folder_ / "table.tsv", names);
  };
  EXPECT_TRUE(known({}));
  EXPECT_TRUE(known({"age", "height, m"}));
  const auto other = known({"height, m", "age"});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(),
              AllOf(HasSubstr("the columns are age, height, m"), HasSubstr("training data")));
}

TEST_F(NumberTable, SaysWhereItIsWrong) {
  tests::Cases cases(folder_.path());
  for (const char* const text :
       {"file,age\n", "a.png\n", "a.png,1\nb.png,1,2\n", "a.png,1\nb.png,old\n",
        "file,age,\na.png,1,2\n", "\nfile,age, age\na.png,1,2\n"})
    cases.add(to_line(text), error_of(text));
  tests::expect_golden("trainer/input/datasets/golden/number_table.txt", cases.text());
  for (const char* const number : {"nan", "inf", "1e99", "1.5x", "", "0,5"})
    EXPECT_THAT(error_of("a.png,1\nb.png," + std::string(number)), HasSubstr("table.csv:2"));
}

// What is wrong in the first line does not make it a heading, which would lose its sample.
TEST_F(NumberTable, TakesNoPictureForAHeading) {
  for (const char* const number :
       {"nan", "-inf", "", " ", "1e99", "1e999", "1.5x", "+-1", "-.5e"}) {
    EXPECT_THAT(error_of("a.png," + std::string(number) + "\nb.png,1\n"),
                AllOf(HasSubstr("table.csv:1"), HasSubstr("expected numbers, found")))
        << number;
  }
  const auto table = read("a.png,+1.5\nb.png,1\n");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_THAT(table->names, IsEmpty());
  EXPECT_THAT(table->values, ElementsAre(1.5F, 1.0F));
  EXPECT_THAT(read("file,info,nan_share\na.png,1,2\n")->names, ElementsAre("info", "nan_share"));
}

TEST_F(NumberTable, TakesNumbersThatAreTooSmallAsZero) {
  const auto table = read("a.png,1e-46\nb.png,-1e-400\nc.png,1e-40\nd.png, +2 \n");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_THAT(table->values, ElementsAre(0.0F, 0.0F, 1e-40F, 2.0F));
}

TEST_F(NumberTable, IsADataSet) {
  std::filesystem::copy(fixture_path("png_grey.png"), folder_ / "a.png");
  std::filesystem::copy(fixture_path("png_grey.png"), folder_ / "b.png");
  folder_.write("table.csv", "name,x,y\na.png,1,2\nb.png,3,4\n");
  const auto data = open_dataset("image_targets",
                                 {{"index", (folder_ / "table.csv").string()}, {"repeat_to", 5}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 5);
  EXPECT_EQ((*data)->target(), (TargetType{TargetKind::numbers, 2}));
  EXPECT_EQ((*data)->classes(), 2);
  EXPECT_EQ((*data)->label(1), 0);
  EXPECT_THAT(std::vector((*data)->class_names().begin(), (*data)->class_names().end()),
              ElementsAre("x", "y"));
  std::vector<float> values(2);
  (*data)->read_target(4, values);
  EXPECT_THAT(values, ElementsAre(1.0F, 2.0F));
  (*data)->read_target(3, values);
  EXPECT_THAT(values, ElementsAre(3.0F, 4.0F));
}

class TagTable : public testing::Test {
 protected:
  [[nodiscard]] Result<PictureTable> read(const std::string& text,
                                          const std::vector<std::string>& known = {}) const {
    folder_.write("table.csv", text);
    return read_tag_table(folder_ / "table.csv", known);
  }
  [[nodiscard]] std::string error_of(const std::string& text,
                                     const std::vector<std::string>& known = {}) const {
    const auto table = read(text, known);
    EXPECT_FALSE(table);
    return table ? "" : table.error().message();
  }

  TemporaryFolder folder_;
};

TEST_F(TagTable, HasAColumnForEachTag) {
  const auto table = read("file,cat,dog\na.png,1,0\nb.png, 0 ,1\n");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_THAT(table->names, ElementsAre("cat", "dog"));
  EXPECT_THAT(table->flags, ElementsAre(1, 0, 0, 1));
  const auto numbered = read("a.png,1\nb.png,0\n");
  ASSERT_TRUE(numbered) << numbered.error().message();
  EXPECT_EQ(numbered->width, 1);
  EXPECT_THAT(numbered->names, IsEmpty());
  EXPECT_THAT(numbered->files, testing::SizeIs(2));
  EXPECT_THAT(read("file,cat\na.png,1\n")->names, ElementsAre("cat"));
}

TEST_F(TagTable, OrAListOfTags) {
  for (const char* const heading : {"", "image,Tags\n"}) {
    const auto table = read(std::string(heading) + "a.png,dog; cat\nb.png,\nc.png,cat;cat\n");
    ASSERT_TRUE(table) << table.error().message();
    EXPECT_THAT(table->names, ElementsAre("cat", "dog"));
    EXPECT_THAT(table->flags, ElementsAre(1, 1, 0, 0, 1, 0));
  }
  const auto table = read("file,tag\na.png,cat|dog\nb.png,tags\n");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_THAT(table->names, ElementsAre("cat", "dog", "tags"));
  EXPECT_THAT(read("b.png,tags\na.png,cat\n")->files, testing::SizeIs(2)) << "a picture";
  // Those of the training number them.
  const auto test = read("a.png,dog\n", {"ant", "cat", "dog"});
  ASSERT_TRUE(test) << test.error().message();
  EXPECT_THAT(test->flags, ElementsAre(0, 0, 1));
}

TEST_F(TagTable, SaysWhereItIsWrong) {
  tests::Cases cases(folder_.path());
  for (const char* const text :
       {"", "a.png,1,0\nb.png,1,2\n", "a.png,1,0\nb.png,1\n", "a.png,\nb.png,\n",
        "file,cat,cat\na.png,1,0\n", "a.png,1.0\nb.png,0.0\n"})
    cases.add(to_line(text), error_of(text));
  cases.add("tags dog, cat", error_of("file,cat,dog\na.png,1,0\n", {"dog", "cat"}));
  cases.add("tags ant, cat", error_of("a.png,emu\n", {"ant", "cat"}));
  std::string many;
  for (int i = 0; i < 40'000; ++i)
    many += "a.png,t" + std::to_string(i) + "\n";
  cases.add("40,000 tags", error_of(many));
  tests::expect_golden("trainer/input/datasets/golden/tag_table.txt", cases.text());
}

TEST_F(TagTable, TakesNoPictureForAHeading) {
  for (const char* const flags : {",", "nan,0", "2,0", "1.0,0.0"}) {
    EXPECT_THAT(error_of("a.png," + std::string(flags) + "\nb.png,1,0\n"),
                AllOf(HasSubstr("table.csv:1"), HasSubstr("expected flags, found")))
        << flags;
  }
}

TEST_F(TagTable, TakesNoNumbersForTags) {
  for (const char* const number : {"1.0", "-1", "1e0", "nan"}) {
    EXPECT_THAT(error_of("a.png,cat\nb.png," + std::string(number) + "\n"),
                AllOf(HasSubstr("table.csv:2"), HasSubstr("write 0 or 1")));
  }
  EXPECT_THAT(read("a.png,12;7\nb.png,12\n")->names, ElementsAre("12", "7"));
}

// As docs/recipe.md shows them.
TEST_F(TagTable, IsADataSet) {
  std::filesystem::copy(fixture_path("png_grey.png"), folder_ / "1.png");
  std::filesystem::copy(fixture_path("png_grey.png"), folder_ / "2.png");
  for (const char* const text :
       {"file,cat,dog\n1.png,1,0\n2.png,0,1\n", "1.png,cat\n2.png,dog\n"}) {
    folder_.write("scenes.csv", text);
    const auto data = open_dataset(
        "image_tags", {{"index", (folder_ / "scenes.csv").string()}, {"repeat_to", 3}});
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ((*data)->target(), (TargetType{TargetKind::tags, 2}));
    std::vector<float> values(2);
    (*data)->read_target(2, values);
    EXPECT_THAT(values, ElementsAre(1.0F, 0.0F));
    (*data)->read_target(1, values);
    EXPECT_THAT(values, ElementsAre(0.0F, 1.0F));
  }
}

std::unique_ptr<Dataset> synthetic(std::int64_t targets, std::int64_t seed = 1) {
  auto data =
      open_dataset("synthetic_targets",
                   {{"samples", 400}, {"shape", {2, 8, 12}}, {"targets", targets}, {"seed", seed}});
  EXPECT_TRUE(data) << (data ? "" : data.error().message());
  return data ? std::move(*data) : nullptr;
}

std::vector<float> target_of(const Dataset& data, std::int64_t index) {
  std::vector<float> values(data.target().floats());
  data.read_target(index, values);
  return values;
}

std::vector<std::uint8_t> sample_of(const Dataset& data, std::int64_t index) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(data.type().shape().elements()));
  EXPECT_TRUE(data.read(index, bytes));
  return bytes;
}

TEST(SyntheticTargets, AreTheSameEveryTime) {
  const auto data = synthetic(3);
  EXPECT_EQ(data->target(), (TargetType{TargetKind::numbers, 3}));
  EXPECT_EQ(target_of(*data, 7), target_of(*synthetic(3), 7));
  EXPECT_EQ(sample_of(*data, 7), sample_of(*synthetic(3), 7));
  EXPECT_NE(target_of(*data, 7), target_of(*data, 8));
  EXPECT_NE(target_of(*data, 7), target_of(*synthetic(3, 2), 7));
  for (std::int64_t i = 0; i < data->size(); ++i)
    EXPECT_THAT(target_of(*data, i), Each(AllOf(testing::Ge(-1.0F), testing::Lt(1.0F))));
}

TEST(SyntheticTags, AreThereOrNot) {
  const auto data = open_dataset(
      "synthetic_tags", {{"samples", 400}, {"shape", {1, 8, 8}}, {"tags", 3}, {"seed", 1}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->target(), (TargetType{TargetKind::tags, 3}));
  int there = 0;
  for (std::int64_t i = 0; i < (*data)->size(); ++i) {
    for (const float flag : target_of(**data, i)) {
      EXPECT_TRUE(flag == 0.0F || flag == 1.0F);
      there += flag == 1.0F ? 1 : 0;
    }
  }
  EXPECT_GT(there, 500);
  EXPECT_LT(there, 700);
}

// With one number, the brightness of some cell of the grid follows it.
TEST(SyntheticTargets, AreInThePictures) {
  const auto data = synthetic(1);
  double strongest = 0.0;
  for (std::size_t row = 0; row < 16; row += 2) {
    double sum_xy = 0.0;
    double sum_xx = 0.0;
    double sum_yy = 0.0;
    for (std::int64_t i = 0; i < data->size(); ++i) {
      const double x = target_of(*data, i)[0];
      const auto bytes = sample_of(*data, i);
      double y = -6 * 127.5;
      for (const std::size_t at : {0U, 1U, 2U, 12U, 13U, 14U})
        y += bytes[row * 12 + at];
      sum_xy += x * y;
      sum_xx += x * x;
      sum_yy += y * y;
    }
    strongest = std::max(strongest, std::abs(sum_xy) / std::sqrt(sum_xx * sum_yy));
  }
  EXPECT_GT(strongest, 0.7);
}

}  // namespace
}  // namespace autotuned::input
