// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/line_breaks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace autotuned::daemon {
namespace {

// The parts of `text` between the blanks at which it may be broken.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = next_break(text, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

using Parts = std::vector<std::string>;

TEST(LineBreaks, WordsBreak) {
  EXPECT_EQ(parts_of("one two"), (Parts{"one", "two"}));
  EXPECT_EQ(parts_of("8 of 9 plugins"), (Parts{"8", "of", "9", "plugins"}));
  EXPECT_EQ(parts_of("x s % h"), (Parts{"x", "s", "%", "h"})) << "no number stands before them";
  EXPECT_EQ(parts_of("in 2026, s is"), (Parts{"in", "2026,", "s", "is"}));
  EXPECT_EQ(parts_of("from 2 to all"), (Parts{"from", "2", "to", "all"}));
  EXPECT_EQ(next_break("", 0), 0U);
  EXPECT_EQ(next_break(" a", 0), 0U);
  EXPECT_EQ(next_break("a", 0), 1U);
}

TEST(LineBreaks, ANumberStaysWithItsUnit) {
  EXPECT_EQ(parts_of("took 12.3 % of"), (Parts{"took", "12.3 %", "of"}));
  EXPECT_EQ(parts_of("(+12.3 %), 60 s."), (Parts{"(+12.3 %),", "60 s."}));
  EXPECT_EQ(parts_of("at 1,234 samples/s; 2 steps"),
            (Parts{"at", "1,234 samples/s;", "2", "steps"}));
  EXPECT_EQ(parts_of("after 4 min 05 s left"), (Parts{"after", "4 min 05 s", "left"}));
  EXPECT_EQ(parts_of("2 h 03 min, 1.5 GiB"), (Parts{"2 h 03 min,", "1.5 GiB"}));
}

TEST(LineBreaks, ARatioStaysWholeAndSoDoesItsInterval) {
  EXPECT_EQ(parts_of("is 1.35 x (1.2 to 1.4), kept"),
            (Parts{"is", "1.35 x", "(1.2 to 1.4),", "kept"}));
  EXPECT_EQ(parts_of("(at least 1.18)"), (Parts{"(at", "least", "1.18)"}));
}

// Cells of a table are apart by two blanks.
TEST(LineBreaks, CellsBreak) {
  EXPECT_EQ(next_break("12  s", 0), 2U);
  EXPECT_EQ(next_break("12  s", 3), 3U);
}

}  // namespace
}  // namespace autotuned::daemon
