// SPDX-License-Identifier: Apache-2.0
#include "base/table_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace autotuned {
namespace {

using testing::ElementsAre;

struct Table {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::int64_t> lines;
};

Table table_of(const std::string& file, const std::string& text) {
  Table table;
  const auto read = for_each_row(file, text, [&table](const TableRow& row) -> Result<void> {
    table.cells.push_back(row.cells);
    table.lines.push_back(row.line);
    return {};
  });
  EXPECT_TRUE(read) << read.error().message();
  return table;
}

TEST(TableFile, SeparatesCellsByCommasOrTabs) {
  const Table commas = table_of("a.csv",
                                "\xef\xbb\xbf"
                                "a,\"b, \"\"c\"\"\"\r\n\nd,\n");
  ASSERT_EQ(commas.cells.size(), 2U);
  EXPECT_THAT(commas.cells[0], ElementsAre("a", "b, \"c\""));
  EXPECT_THAT(commas.cells[1], ElementsAre("d", ""));
  EXPECT_THAT(commas.lines, ElementsAre(1, 3));
  EXPECT_THAT(table_of("a.TSV", "a,b\tc\n").cells[0], ElementsAre("a,b", "c"));
}

TEST(TableFile, NamesTheLineOfAWrongQuote) {
  const auto take = [](const TableRow&) -> Result<void> { return {}; };
  const auto read = for_each_row("a.csv", "a,b\nc,d\"e\n", take);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().where, "a.csv:2");
}

TEST(TableFile, KnowsTheWordsAboveItsColumns) {
  for (const char* word : {"file", "Filename", " image ", "PATH"})
    EXPECT_TRUE(is_heading_of_files(word)) << word;
  for (const char* word : {"label", "Tags", "class", "category"})
    EXPECT_TRUE(is_heading_of_labels(word)) << word;
  for (const char* word : {"1.jpg", "", "age"}) {
    EXPECT_FALSE(is_heading_of_files(word)) << word;
    EXPECT_FALSE(is_heading_of_labels(word)) << word;
  }
}

}  // namespace
}  // namespace autotuned
