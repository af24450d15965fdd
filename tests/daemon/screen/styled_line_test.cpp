// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/styled_line.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/base/environment_variable.hpp"

namespace autotuned::daemon {
namespace {

LineStyle plain(int columns) {
  LineStyle style;
  style.columns = columns;
  return style;
}

std::vector<std::string> drawn_all(const std::vector<Line>& lines, const LineStyle& style) {
  std::vector<std::string> texts;
  for (const Line& line : lines)
    texts.push_back(drawn(line, style));
  return texts;
}

TEST(StyledLine, IsCutWhereItIsTooWide) {
  const Line line = {{"trying", Tone::quiet}, {" 模型模型", Tone::strong}};
  EXPECT_EQ(drawn(line, plain(0)), "trying 模型模型");
  EXPECT_EQ(drawn(line, plain(15)), "trying 模型模型");
  EXPECT_EQ(drawn(line, plain(14)), "trying 模型模…");
  EXPECT_EQ(drawn(line, plain(13)), "trying 模型…");
  EXPECT_EQ(drawn(line, plain(7)), "trying…");
  EXPECT_EQ(drawn(line, plain(3)), "tr…");
  EXPECT_EQ(drawn(line, plain(1)), "…");
}

TEST(StyledLine, ColoursEndWhereTheirTextEnds) {
  LineStyle style = plain(8);
  style.is_coloured = true;
  EXPECT_EQ(drawn({{"bad", Tone::bad}, {" and good", Tone::good}}, style),
            "\x1b[31mbad\x1b[0m\x1b[32m and\x1b[0m…");
  EXPECT_EQ(drawn({{"plain", Tone::plain}}, style), "plain");
}

TEST(StyledLine, NothingOfOthersSteersTheTerminal) {
  EXPECT_EQ(drawn({{"a\x1b[2J\r\nb\xC2\x9Bz", Tone::plain}}, plain(0)), "a?[2J??b?z");
  EXPECT_EQ(columns_of({{"a\x1b\n", Tone::plain}}), 3);
}

TEST(StyledLine, TextBehindALabelBreaksBetweenWords) {
  EXPECT_EQ(drawn_all(labelled(label("note"), "one two three", plain(18)), plain(0)),
            (std::vector<std::string>{"note       one two", "           three"}));
  EXPECT_EQ(drawn_all(labelled(label("note"), "one\ntwo", plain(0)), plain(0)),
            (std::vector<std::string>{"note       one", "           two"}));
  EXPECT_EQ(drawn_all(labelled(label("note"), "", plain(40)), plain(0)),
            (std::vector<std::string>{"note       "}));
}

TEST(StyledLine, TextBehindALabelBreaksNoFigure) {
  EXPECT_EQ(drawn_all(labelled(label("note"), "it took 72 % of it", plain(21)), plain(0)),
            (std::vector<std::string>{"note       it took", "           72 % of it"}));
}

TEST(StyledLine, AWordThatIsTooWideStaysWhole) {
  EXPECT_EQ(drawn_all(labelled({"in ", Tone::plain}, "a /very/long/path b", plain(10)), plain(0)),
            (std::vector<std::string>{"in a", "   /very/long/path", "   b"}));
}

TEST(StyledLine, PartsThatDoNotFitAreLeftOut) {
  EXPECT_EQ(joined({"one", "two", "three"}, 80), "one, two, three");
  EXPECT_EQ(joined({"one", "two", "three"}, 8), "one, two");
  EXPECT_EQ(joined({"one", "two"}, 1), "one");
  EXPECT_EQ(joined({}, 10), "");
}

TEST(StyledLine, ABarIsFullAtItsEndAndNeverWider) {
  EXPECT_EQ(bar(0.0, 4), "░░░░");
  EXPECT_EQ(bar(0.5, 4), "██░░");
  EXPECT_EQ(bar(1.0, 4), "████");
  EXPECT_EQ(bar(7.0, 2), "██");
  EXPECT_EQ(bar(-1.0, 2), "░░");
  EXPECT_EQ(bar(std::numeric_limits<double>::quiet_NaN(), 2), "░░");
}

TEST(StyledLine, ColoursAreForTerminalsOfPeopleWhoWantThem) {
  const EnvironmentVariable terminal("TERM", "xterm");
  {
    const EnvironmentVariable none("NO_COLOR", nullptr);
    EXPECT_TRUE(is_coloured(ColorChoice::automatic, true));
    EXPECT_FALSE(is_coloured(ColorChoice::automatic, false));
    const EnvironmentVariable dumb("TERM", "dumb");
    EXPECT_FALSE(is_coloured(ColorChoice::automatic, true));
  }
  {
    const EnvironmentVariable empty("NO_COLOR", "");
    EXPECT_TRUE(is_coloured(ColorChoice::automatic, true));
  }
  const EnvironmentVariable none("NO_COLOR", "1");
  EXPECT_FALSE(is_coloured(ColorChoice::automatic, true));
  EXPECT_TRUE(is_coloured(ColorChoice::always, false));
  EXPECT_FALSE(is_coloured(ColorChoice::never, true));
}

}  // namespace
}  // namespace autotuned::daemon
