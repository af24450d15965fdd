// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/pictures/image_index.hpp"

#include <gmock/gmock.h>

#include "base/json.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "trainer/input/datasets/class_names.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ReadImageIndex : public testing::Test {
 protected:
  [[nodiscard]] Result<ImageIndex> read(const std::string& text, std::int64_t classes = 0) const {
    folder_.write("index.csv", text);
    return read_image_index(folder_ / "index.csv", classes);
  }
  [[nodiscard]] std::string error_of(const std::string& text, std::int64_t classes = 0) const {
    const auto index = read(text, classes);
    EXPECT_FALSE(index);
    return index ? "" : index.error().message();
  }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(ReadImageIndex, TakesIntegersAsTheyAre) {
  const auto index = read("a.png,2\nmore/b.jpg,0\n");
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_THAT(index->files, ElementsAre(path("a.png"), path("more/b.jpg")));
  EXPECT_THAT(index->labels, ElementsAre(2, 0));
  EXPECT_EQ(index->classes, 3);
  EXPECT_EQ(read("a.png,2", 5)->classes, 5);
}

TEST_F(ReadImageIndex, NumbersNamesInTheirOrder) {
  const auto index = read("a,dog\nb,ant\nc,7\nd,dog\n");
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_THAT(index->labels, ElementsAre(2, 1, 0, 2));  // "7" is a name among names
  EXPECT_EQ(index->classes, 3);
}

// A class that the table lacks must not renumber those behind it.
TEST_F(ReadImageIndex, TakesTheNumbersOfTheTraining) {
  const std::vector<std::string> known = {"ant", "cat", "dog"};
  folder_.write("index.csv", "a,dog\nb,ant\n");
  const auto index = read_image_index(folder_ / "index.csv", 0, known);
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_THAT(index->labels, ElementsAre(2, 0));
  EXPECT_EQ(index->classes, 3);
  EXPECT_EQ(index->names, known);
  folder_.write("index.csv", "a,dog\nb,emu\nc,bee\n");
  const auto other = read_image_index(folder_ / "index.csv", 0, known);
  ASSERT_FALSE(other);
  EXPECT_THAT(
      other.error().message(),
      AllOf(HasSubstr("index.csv: has classes that the training data do not have: bee, emu"),
            HasSubstr("ant, cat, dog")));
  // Integers are numbers, unless one of them is a name.
  folder_.write("index.csv", "a,2\nb,1\n");
  EXPECT_THAT(read_image_index(folder_ / "index.csv", 0, known)->labels, ElementsAre(2, 1));
  const std::vector<std::string> digits = {"1", "2", "x"};
  EXPECT_THAT(read_image_index(folder_ / "index.csv", 0, digits)->labels, ElementsAre(1, 0));
}

// Else a further line with a name would make two classes of one.
TEST_F(ReadImageIndex, ZerosInFrontMakeAName) {
  const auto index = read("a,01\nb,1\nc,0\n");
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_THAT(index->names, ElementsAre("0", "01", "1"));
  EXPECT_THAT(index->labels, ElementsAre(1, 2, 0));
  EXPECT_THAT(read("a,01\nb,1\nc,0\nd,cat\n")->labels, ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(read("a,-0\n")->names, ElementsAre("-0"));
  // The second class of the training is 02, and not 1.
  const std::vector<std::string> known = {"01", "02"};
  folder_.write("index.csv", "a,1\nb,0\n");
  const auto other = read_image_index(folder_ / "index.csv", 0, known);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(),
              AllOf(HasSubstr("the training data do not have: 0, 1"), HasSubstr("01, 02")));
}

TEST(AlikeNames, AreTold) {
  const auto told = [](const std::vector<std::string>& names) { return alike_names_text(names); };
  EXPECT_EQ(told({"0", "1", "10", "100", "cat", "cat1", "cat01", "dog", "0x"}), "");
  tests::Cases cases;
  cases.add("01, 1, cat", told({"01", "1", "cat"}));
  cases.add("Cat, a, cat", told({"Cat", "a", "cat"}));
  cases.add("cat with blanks before and behind it", told({" cat", "cat", "cat "}));
  cases.add("0, 00", told({"0", "00"}));
  tests::expect_golden("trainer/input/datasets/pictures/golden/alike_names.txt", cases.text());
}

TEST_F(ReadImageIndex, ReadsWhatOtherProgramsWrite) {
  const auto index = read(
      "\xef\xbb\xbf"
      "Path,Label\r\n\"a, \"\"b\"\".png\",1\r\n\r\n/abs/../c.png,\"0\"");
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_THAT(index->files, ElementsAre(path("a, \"b\".png"), "/c.png"));
  EXPECT_THAT(index->labels, ElementsAre(1, 0));
  EXPECT_THAT(read("image,species\na.png,cat\n")->names, ElementsAre("cat"));
  // Only a heading is none.
  EXPECT_THAT(read("file,label\nfile,label\n")->files, ElementsAre(path("file")));
}

TEST_F(ReadImageIndex, NamesTheLineThatIsWrong) {
  tests::Cases cases(folder_.path());
  for (const char* const text : {"a,1\nb\n", "a,1\n\nb,1,2\n", "\"a\nb\",1\nc,\n", "a,1\nb,\"1\n",
                                 "\"a\"b,1", "a\"b,1", "a,-1", "a,70000", "", "file,label\n"})
    cases.add(to_line(text), error_of(text));
  cases.add("3 classes, the label 3", error_of("a,0\nb,3", 3));
  cases.add("3 classes, 2 names", error_of("a,cat\nb,dog", 3));
  tests::expect_golden("trainer/input/datasets/pictures/golden/image_index.txt", cases.text());
  EXPECT_EQ(read_image_index(folder_ / "none.csv", 0).error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace autotuned::input
