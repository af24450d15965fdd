// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/wrapped_text.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "base/descriptor.hpp"
#include "daemon/report/characters.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

std::string without_breaks(const std::string& text) {
  std::istringstream in(text);
  std::string words;
  for (std::string word; in >> word;)
    words += word + " ";
  return words;
}

TEST(WrappedText, LinesThatFitStayAsTheyAre) {
  EXPECT_EQ(wrapped("", 10), "");
  EXPECT_EQ(wrapped("one two\n\n  three", 10), "one two\n\n  three");
  EXPECT_EQ(wrapped("1234567890\n", 10), "1234567890\n");
  EXPECT_EQ(wrapped("one two three four", 0), "one two three four") << "no terminal, no width";
}

TEST(WrappedText, BreaksAtBlanksAndHangsTwoBlanksIn) {
  EXPECT_EQ(wrapped("one two three four\nfive\n", 10), "one two\n  three\n  four\nfive\n");
  EXPECT_EQ(wrapped("  one two three", 10), "  one two\n    three");
}

TEST(WrappedText, HangsBehindLabelsCellsAndMarksOfLists) {
  EXPECT_EQ(wrapped("kept     one, two, three", 20), "kept     one, two,\n         three");
  EXPECT_EQ(wrapped("1  amp  off to bf16 accepted", 20), "1  amp  off to bf16\n        accepted");
  EXPECT_EQ(wrapped("  12. amp proposed it", 16), "  12. amp\n      proposed\n      it");
  EXPECT_EQ(wrapped("    → raise the number", 18), "    → raise the\n      number");
}

TEST(WrappedText, BreaksNoFigure) {
  EXPECT_EQ(wrapped("it waited 72 % of", 12), "it waited\n  72 % of");
  EXPECT_EQ(wrapped("faster   1.35 x (1.2 to 1.4)", 24), "faster   1.35 x\n         (1.2 to 1.4)");
}

// A cell on the right half of a terminal leaves no room for a sentence.
TEST(WrappedText, HangsUnderNoCellOnTheRight) {
  EXPECT_EQ(wrapped("a  b           c d e f", 20), "a  b           c d e\n   f");
}

TEST(WrappedText, AWordThatIsTooWideStaysWhole) {
  EXPECT_EQ(wrapped("in /a/very/long/path it is", 10), "in\n  /a/very/long/path\n  it is");
  EXPECT_EQ(wrapped("/a/very/long/path", 10), "/a/very/long/path");
  EXPECT_EQ(wrapped("            ", 4), "");
}

TEST(WrappedText, CountsColumnsNotBytes) {
  EXPECT_EQ(wrapped("→→→→ →→→→", 9), "→→→→ →→→→");
  EXPECT_EQ(wrapped("模型 模型", 8), "模型\n  模型") << "each takes two columns";
}

TEST(WrappedText, ATerminalGetsLinesOfItsWidth) {
  const Descriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  if (!terminal.is_open()) GTEST_SKIP() << "no pseudo terminals here";
  ASSERT_EQ(::grantpt(terminal.get()), 0);
  ASSERT_EQ(::unlockpt(terminal.get()), 0);
  const Descriptor screen(::open(::ptsname(terminal.get()), O_RDWR | O_NOCTTY));
  ASSERT_TRUE(screen.is_open());
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 20;
  ASSERT_EQ(::ioctl(screen.get(), TIOCSWINSZ, &size), 0);
  std::cout << std::flush;
  const Descriptor before(::dup(STDOUT_FILENO));
  ASSERT_GE(::dup2(screen.get(), STDOUT_FILENO), 0);
  print_text("one two three four five six\n");
  std::cout << std::flush;
  ASSERT_GE(::dup2(before.get(), STDOUT_FILENO), 0);
  std::array<char, 256> bytes{};
  const ssize_t count = ::read(terminal.get(), bytes.data(), bytes.size());
  ASSERT_GT(count, 0);
  EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(count)),
            "one two three four\r\n  five six\r\n");
}

// The views that people read as a whole, at the width of the narrowest usual terminal.
TEST(WrappedText, NoWordOfAViewIsSplitInEightyColumns) {
  for (const char* view : {"story", "story_ranks", "run_ranks"}) {
    const std::string text =
        tests::golden_text(std::string("daemon/report/golden/") + view + ".txt");
    ASSERT_FALSE(text.empty()) << view;
    const std::string narrow = wrapped(text, 80);
    EXPECT_EQ(without_breaks(narrow), without_breaks(text)) << view;
    std::istringstream lines(narrow);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(columns_of(line), 80) << line;
  }
}

}  // namespace
}  // namespace autotuned::daemon
