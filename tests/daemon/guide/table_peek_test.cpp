// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/table_peek.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::size_t kEnough = 1U << 20U;

class TablePeeks : public testing::Test {
 protected:
  TablePeeks() {
    for (int i = 0; i < 12; ++i)
      folder_.write(std::to_string(i) + ".jpg", "x");
  }

  [[nodiscard]] TableLook look(const std::string& text, const std::string& name = "table.csv",
                               std::size_t most_bytes = kEnough) const {
    return look_at_table(folder_.write(name, text), most_bytes);
  }
  // Reads a table of which a part fits a recipe.
  [[nodiscard]] TablePeek peek(const std::string& text,
                               const std::string& name = "table.csv") const {
    const TableLook found = look(text, name);
    EXPECT_TRUE(found.peek) << found.problem << "\n" << text;
    return found.peek.value_or(TablePeek{});
  }
  [[nodiscard]] std::string problem(const std::string& text) const {
    const TableLook found = look(text);
    EXPECT_FALSE(found.peek) << text;
    return found.problem;
  }

  TemporaryFolder folder_;
};

TEST_F(TablePeeks, ClassesAreNamesOrWholeNumbers) {
  const TablePeek names = peek("file,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n");
  EXPECT_EQ(names.kind, TargetKind::classes);
  EXPECT_EQ(names.outputs, 2);
  EXPECT_EQ(names.pictures, 3);
  EXPECT_THAT(names.labels, ElementsAre("cat", "dog"));
  EXPECT_THAT(names.examples, SizeIs(3));
  const TablePeek numbers = peek("0.jpg,3\n1.jpg,0\n");
  EXPECT_EQ(numbers.kind, TargetKind::classes);
  EXPECT_EQ(numbers.outputs, 4);
  EXPECT_THAT(numbers.note, IsEmpty());
  EXPECT_EQ(peek("image,Label\n0.jpg,3\n1.jpg,0\n").kind, TargetKind::classes);
}

TEST_F(TablePeeks, WholeNumbersWithZerosInFrontAreNames) {
  const TablePeek padded = peek("file,label\n0.jpg,01\n1.jpg,12\n2.jpg,01\n");
  EXPECT_EQ(padded.kind, TargetKind::classes);
  EXPECT_EQ(padded.outputs, 2);
  EXPECT_THAT(padded.labels, ElementsAre("01", "12"));
}

TEST_F(TablePeeks, NumbersHaveAColumnEach) {
  const TablePeek one = peek("file,age\n0.jpg,3.5\n1.jpg,-1e-3\n");
  EXPECT_EQ(one.kind, TargetKind::numbers);
  EXPECT_EQ(one.outputs, 1);
  EXPECT_THAT(one.columns, ElementsAre("age"));
  const TablePeek two = peek("file\tage\theight\n0.jpg\t30\t1.75\n1.jpg\t7\t1\n", "table.tsv");
  EXPECT_EQ(two.kind, TargetKind::numbers);
  EXPECT_THAT(two.columns, ElementsAre("age", "height"));
  EXPECT_THAT(peek("0.jpg,0.5,2\n1.jpg,1,3\n").columns, IsEmpty());
}

// Whole numbers under another name than `label`: by how often each is there, and it is said.
TEST_F(TablePeeks, WholeNumbersMayBeEither) {
  const TablePeek ages = peek("file,age\n0.jpg,30\n1.jpg,7\n2.jpg,30\n");
  EXPECT_EQ(ages.kind, TargetKind::numbers);
  std::string text = "file,quality\n";
  for (int i = 0; i < 12; ++i)
    text += std::to_string(i) + ".jpg," + std::to_string(i % 3) + "\n";
  const TablePeek few = peek(text);
  EXPECT_EQ(few.kind, TargetKind::classes);
  EXPECT_EQ(few.outputs, 3);
  tests::expect_golden("daemon/guide/golden/table_notes.txt", ages.note + "\n" + few.note + "\n");
}

TEST_F(TablePeeks, TagsAreListsOrColumns) {
  for (const char* separator : {";", "|"}) {
    const TablePeek lists =
        peek("file,tags\n0.jpg,cat" + std::string(separator) + " dog\n1.jpg,\n2.jpg,emu\n");
    EXPECT_EQ(lists.kind, TargetKind::tags);
    EXPECT_EQ(lists.outputs, 3);
    EXPECT_THAT(lists.labels, ElementsAre("cat", "dog", "emu"));
  }
  const TablePeek columns = peek("file,cat,dog\n0.jpg,0,1\n1.jpg,1,1\n");
  EXPECT_EQ(columns.kind, TargetKind::tags);
  EXPECT_THAT(columns.columns, ElementsAre("cat", "dog"));
  EXPECT_EQ(peek("0.jpg,0,1\n1.jpg,1,1\n").outputs, 2);
}

TEST_F(TablePeeks, SayWhatWasFoundInWhichLine) {
  tests::Cases cases(folder_.path());
  for (const char* table :
       {"file,age\n0.jpg,3.5\n1.jpg,n/a\n", "file,age\n0.jpg,3.5\n1.jpg,\n",
        "file,label\n0.jpg,cat\n1.jpg,\n", "file,age,colour\n0.jpg,3.5,red\n1.jpg,4,blue\n",
        "0.jpg,1,0\n1.jpg,1\n", "0.jpg,cat\n1.jpg,dog\nnotes.txt,dog\n",
        "all/0.jpg,cat\nall/1.jpg,dog\n", "id,age\n3,3.5\n4,4\n",
        "file,2020,2021\n0.jpg,1.5,2\n1.jpg,1,2\n", "file,a,a\n0.jpg,1.5,2\n1.jpg,1,2\n",
        "Photo,Kind\n0.jpg,cat\n1.jpg,dog\n", "file,things\n0.jpg,cat|dog\n1.jpg,\n",
        "0.jpg,cat\n1.jpg,do\"g\n"}) {
    cases.add(table, problem(table));
  }
  tests::expect_golden("daemon/guide/golden/table_problems.txt", cases.text());
}

TEST_F(TablePeeks, AreSilentAboutOtherTables) {
  for (const char* text : {"", "bread,2\nmilk,1\n", "name,price\nbread,2\n", "0.jpg\n1.jpg\n",
                           "a \"strange\" one\n", "0.jpg,cat\n1.jpg,cat\n", "0.jpg,cat\n"})
    EXPECT_THAT(problem(text), IsEmpty()) << text;
}

TEST_F(TablePeeks, ReadOnlySoFar) {
  const TableLook found = look("0.jpg,1.5\n1.jpg,2.5\n2.jpg,wrong\n", "table.csv", 24);
  ASSERT_TRUE(found.peek) << found.problem;
  EXPECT_FALSE(found.peek->is_whole);
  EXPECT_EQ(found.peek->pictures, 2);
}

TEST_F(TablePeeks, DoNotCutAQuotedCell) {
  const std::string text = "0.jpg,\"a \"\"b\"\"\nc\"\n1.jpg,dog\n2.jpg,\"two\nlines\"\n";
  const TableLook found = look(text, "table.csv", text.size() - 4);
  ASSERT_TRUE(found.peek) << found.problem;
  EXPECT_FALSE(found.peek->is_whole);
  EXPECT_EQ(found.peek->pictures, 2);
  EXPECT_THAT(found.peek->labels, ElementsAre("a \"b\"\nc", "dog"));
}

TEST_F(TablePeeks, OfATestFitThatOfTheTraining) {
  const TablePeek training = peek("file,cat,dog\n0.jpg,0,1\n1.jpg,1,1\n");
  EXPECT_THAT(misfit(training, training), IsEmpty());
  EXPECT_THAT(misfit(training, peek("2.jpg,0,1\n3.jpg,1,1\n")), IsEmpty());
  const TablePeek classes = peek("0.jpg,cat\n1.jpg,dog\n");
  tests::Cases cases;
  cases.add("other columns", misfit(training, peek("file,dog,cat\n0.jpg,0,1\n1.jpg,1,1\n")));
  cases.add("more columns", misfit(training, peek("0.jpg,0,1,0\n1.jpg,1,1,0\n")));
  cases.add("numbers for tags", misfit(training, peek("0.jpg,0.5\n1.jpg,1\n")));
  cases.add("a class of its own", misfit(classes, peek("0.jpg,emu\n1.jpg,dog\n")));
  tests::expect_golden("daemon/guide/golden/table_misfits.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::daemon
