// SPDX-License-Identifier: Apache-2.0
// Views that the tree keeps whole, each in a file below tests/. After a wanted change: run the test's program with
// AUTOTUNED_WRITE_GOLDEN=1, then read the difference.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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
    std::ofstream(source_folder() / "tests" / below_tests) << text;
  }
  EXPECT_EQ(text, golden_text(below_tests)) << below_tests;
}

}  // namespace autotuned::tests
