// SPDX-License-Identifier: Apache-2.0
// A view in parts: one golden file for several tests, with a part for each of them below a line "== SUITE.TEST". Write it with
// the test's program itself, since tests in parallel would overwrite each other's parts; the part of a test that is gone is
// removed by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "tests/golden.hpp"

namespace autotuned::tests {

// By the name of the test.
inline std::map<std::string, std::string> golden_parts(const std::filesystem::path& below_tests) {
  std::map<std::string, std::string> parts;
  std::istringstream lines(golden_text(below_tests));
  std::string* part = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("== ")) {
      part = &parts[line.substr(3)];
    } else if (part != nullptr) {
      *part += line + "\n";
    }
  }
  return parts;
}

// Compares `text`, whose last line is ended, with the part of the test that runs; a test that says nothing has none.
inline void expect_golden_part(const std::filesystem::path& below_tests, const std::string& text) {
  if (testing::Test::IsSkipped()) return;
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test.test_suite_name()) + "." + test.name();
  std::map<std::string, std::string> parts = golden_parts(below_tests);
  if (std::getenv("AUTOTUNED_WRITE_GOLDEN") != nullptr) {
    parts[name] = text;
    if (text.empty()) parts.erase(name);
    std::string whole;
    for (const auto& [of, words] : parts)
      whole.append("== ").append(of).append("\n").append(words);
    expect_golden(below_tests, whole);
  }
  EXPECT_EQ(text, parts[name]) << below_tests << ", " << name;
}

}  // namespace autotuned::tests
