// SPDX-License-Identifier: Apache-2.0
// Each part of a golden file is that of a test: what a test that is gone has left would be read as what is said.
#include <gmock/gmock.h>

#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/places.hpp"
#include "tests/style/source_tree.hpp"

namespace autotuned::style {
namespace {

// SUITE.TEST of a test whose head begins in this line.
std::string test_in(const std::string& line, const std::string& next) {
  static const std::regex kHead(R"(^TEST(_F|_P)?\((\w+),\s*(\w+)\))");
  std::smatch found;
  const std::string head = line + next;
  return std::regex_search(head, found, kHead) ? found.str(2) + "." + found.str(3) : "";
}

TEST(GoldenParts, AreThoseOfTests) {
  std::set<std::string> tests;
  std::vector<std::string> parts;
  for (const SourceFile& file : read_tree(tests::source_folder())) {
    if (!file.path.starts_with("tests/")) continue;
    const std::vector<std::string> lines = lines_of(file.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (is_cpp(file.path) && lines[i].starts_with("TEST"))
        tests.insert(test_in(lines[i], i + 1 < lines.size() ? lines[i + 1] : ""));
      if (file.path.ends_with(".txt") && lines[i].starts_with("== "))
        parts.push_back(lines[i].substr(3));
    }
  }
  EXPECT_THAT(parts, testing::Each(testing::AnyOfArray(tests)));
}

}  // namespace
}  // namespace autotuned::style
