// SPDX-License-Identifier: Apache-2.0
// Views that the tree keeps whole, each in a file below tests/. After a wanted change: run the test's program with
// AUTOTUNED_WRITE_GOLDEN=1, then read the difference.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "tests/places.hpp"

namespace autotuned::tests {

// "" where there is none.
inline std::string golden_text(const std::filesystem::path& below_tests) {
  std::ifstream in(source_folder() / "tests" / below_tests);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void expect_golden(const std::filesystem::path& below_tests, const std::string& text) {
  if (std::getenv("AUTOTUNED_WRITE_GOLDEN") != nullptr) {
    const std::filesystem::path file = source_folder() / "tests" / below_tests;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  EXPECT_EQ(text, golden_text(below_tests)) << below_tests;
}

// `text` with HERE for a folder, which is another one in each run of a test.
inline std::string with_here(std::string text, const std::filesystem::path& folder) {
  const std::string path = folder.string();
  if (path.empty()) return text;
  constexpr std::string_view kHere = "HERE";
  for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos; at += kHere.size())
    text.replace(at, path.size(), kHere);
  return text;
}

// What is said in several cases, as one view: each case on a line, and below it what is said. A case in which nothing is said
// fails.
class Cases {
 public:
  // HERE stands for `folder` in what is said, if one is given.
  explicit Cases(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  void add(const std::string& given, const std::string& said) {
    EXPECT_NE(said, "") << given;
    text_ += given + "\n  " + with_here(said, folder_) + "\n";
  }
  // Adds only the lines of a long text that `base` lacks (+), and those of `base` that it lacks (-).
  void add_difference(const std::string& given, const std::string& base, const std::string& said) {
    text_ += given + "\n" + with_here(lines_beyond(base, said, "+ "), folder_) +
             with_here(lines_beyond(said, base, "- "), folder_);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  // Those of `text` that `other` lacks.
  static std::string lines_beyond(const std::string& other, const std::string& text,
                                  const char* mark) {
    std::istringstream others(other);
    std::set<std::string> known;
    for (std::string line; std::getline(others, line);)
      known.insert(line);
    std::istringstream lines(text);
    std::string beyond;
    for (std::string line; std::getline(lines, line);) {
      if (known.insert(line).second) beyond += "  " + (mark + line) + "\n";
    }
    return beyond;
  }

  std::filesystem::path folder_;
  std::string text_;
};

}  // namespace autotuned::tests
