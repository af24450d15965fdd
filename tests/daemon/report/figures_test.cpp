// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/figures.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/report/characters.hpp"

namespace autotuned::daemon {
namespace {

const std::vector<std::vector<std::string>> kRows = {
    {"name", "state"}, {"学習", "done"}, {"a", "done"}};

// The column in which `word` begins in each line that has it.
std::vector<int> columns_before(const std::string& table, const std::string& word) {
  std::vector<int> columns;
  for (std::size_t at = table.find(word); at != std::string::npos; at = table.find(word, at + 1)) {
    const std::size_t line = table.rfind('\n', at) + 1;  // npos + 1 is 0
    columns.push_back(columns_of(table.substr(line, at - line)));
  }
  return columns;
}

TEST(Table, AlignsCellsBehindCharactersOfTwoColumns) {
  EXPECT_EQ(columns_before(table_text(kRows), "done"), (std::vector<int>{6, 6}));
  EXPECT_EQ(table_columns(kRows), 11U);
}

TEST(Table, CutsCharactersOfTwoColumnsToTheWidthOfTheTerminal) {
  const std::string text =
      fitted_table_text({{"学習の記録", "done"}, {"ab", "done"}}, 12, {{.column = 0, .least = 3}});
  EXPECT_EQ(text, "学習…  done\nab     done\n");
}

}  // namespace
}  // namespace autotuned::daemon
