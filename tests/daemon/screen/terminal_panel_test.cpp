// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/terminal_panel.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace autotuned::daemon {
namespace {

// What a panel writes, drawing by drawing.
class Written {
 public:
  Written() : out_(::open_memstream(&text_, &size_)) {}
  ~Written() {
    std::fclose(out_);
    std::free(text_);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  [[nodiscard]] std::FILE* out() const { return out_; }
  // Since the last time.
  std::string take() {
    std::fflush(out_);
    std::string fresh(text_ + taken_, size_ - taken_);
    taken_ = size_;
    return fresh;
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::size_t taken_ = 0;
  std::FILE* out_;
};

Line line(const char* text) {
  return {{text, Tone::plain}};
}

LineStyle style(int columns) {
  LineStyle wanted;
  wanted.columns = columns;
  return wanted;
}

TEST(TerminalPanel, IsDrawnAgainInPlaceBelowLinesThatStay) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({}, {line("one"), line("two")}, style(79), {});
  EXPECT_EQ(written.take(), "\x1b[?7lone\x1b[K\ntwo\x1b[K\n\x1b[?7h\x1b[J");
  panel.draw({line("stays")}, {line("three")}, style(79), {});
  EXPECT_EQ(written.take(), "\r\x1b[2Astays\x1b[K\n\x1b[?7lthree\x1b[K\n\x1b[?7h\x1b[J");
  panel.erase();
  EXPECT_EQ(written.take(), "\r\x1b[1A\x1b[J");
  panel.erase();
  EXPECT_EQ(written.take(), "");
}

TEST(TerminalPanel, LeavesNothingBehind) {
  Written written;
  {
    TerminalPanel panel(written.out());
    panel.draw({}, {line("one")}, style(79), {});
    written.take();
  }
  EXPECT_EQ(written.take(), "\r\x1b[1A\x1b[J");
}

TEST(TerminalPanel, AnEmptyPanelTakesTheOldOneAway) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({}, {line("one"), line("two")}, style(79), {});
  written.take();
  panel.draw({}, {}, style(79), {});
  EXPECT_EQ(written.take(), "\r\x1b[2A\x1b[J");
  panel.draw({}, {}, style(79), {});
  EXPECT_EQ(written.take(), "");
}

// The card at the end of a run was written over a panel whose rows still stood.
TEST(TerminalPanel, AnEmptyPanelTakesTheOldOneAwayInEveryWindow) {
  for (const ScreenSize& size :
       {ScreenSize{.columns = 40, .rows = 10}, ScreenSize{}, ScreenSize{.columns = 120, .rows = 40},
        ScreenSize{.columns = 400, .rows = 200}}) {
    Written written;
    TerminalPanel panel(written.out());
    const LineStyle wanted = style(size.columns - 1);
    panel.draw({}, {line("1"), line("2"), line("3"), line("4"), line("5")}, wanted, size);
    written.take();
    panel.draw({}, {}, wanted, size);
    EXPECT_EQ(written.take(), "\r\x1b[5A\x1b[J") << size.columns;
    panel.draw({line("stays")}, {line("1"), line("2")}, wanted, size);
    written.take();
    panel.draw({line("stays too")}, {}, wanted, size);
    EXPECT_EQ(written.take(), "\r\x1b[2Astays too\x1b[K\n\x1b[J") << size.columns;
  }
}

// As after two changes of the size and Ctrl-C: a line broken in two rows, cut again, and then nothing.
TEST(TerminalPanel, LeavesNothingBehindAfterTheWindowHasChanged) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({}, {line("0123456789"), line("01234")}, style(79), {});
  written.take();
  panel.draw({}, {line("0123456789"), line("01234")}, style(5), {.columns = 6, .rows = 24});
  EXPECT_EQ(written.take().substr(0, 5), "\r\x1b[3A");
  panel.draw({}, {line("0123456789"), line("01234")}, style(99), {.columns = 100, .rows = 30});
  EXPECT_EQ(written.take().substr(0, 5), "\r\x1b[2A");
  panel.draw({}, {}, style(99), {.columns = 100, .rows = 30});
  EXPECT_EQ(written.take(), "\r\x1b[2A\x1b[J");
}

TEST(TerminalPanel, FindsItsFirstRowWhenTheWindowHasBecomeNarrower) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({}, {line("0123456789"), line("01234"), line("")}, style(79), {});
  written.take();
  panel.draw({}, {line("new")}, style(3), {.columns = 4, .rows = 24});
  // 3 rows of the first line, 2 of the second, 1 of the empty one.
  EXPECT_EQ(written.take(), "\r\x1b[6A\x1b[?7lnew\x1b[K\n\x1b[?7h\x1b[J");
}

TEST(TerminalPanel, NeverTakesMoreRowsThanThereAre) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({}, {line("1"), line("2"), line("3")}, style(79), {.columns = 80, .rows = 3});
  EXPECT_EQ(written.take(),
            "\x1b[?7l"
            "1\x1b[K\n2\x1b[K\n\x1b[?7h\x1b[J");
}

TEST(TerminalPanel, LinesThatStayAreWhole) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({line("wider than the window")}, {}, style(5), {.columns = 6, .rows = 24});
  EXPECT_EQ(written.take(), "wider than the window\x1b[K\n\x1b[J");
}

// Terminals that break a line at the next character only: "erase to the end of the line" takes the last one away.
TEST(TerminalPanel, ALineThatFillsTheWindowKeepsItsLastCharacter) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({line("012345"), line("012345012345"), line("01234"), line("")}, {}, style(5),
             {.columns = 6, .rows = 24});
  EXPECT_EQ(written.take(), "012345\n012345012345\n01234\x1b[K\n\x1b[K\n\x1b[J");
}

// Whatever happens to the process, the terminal is as it was: no mode stays changed after a drawing, and no cursor hidden.
TEST(TerminalPanel, RestoresAfterEachDrawingWhatItChanges) {
  Written written;
  TerminalPanel panel(written.out());
  panel.draw({line("stays")}, {line("one")}, style(79), {});
  const std::string text = written.take();
  EXPECT_LT(text.find("\x1b[?7l"), text.find("\x1b[?7h"));
  EXPECT_EQ(text.find("\x1b[?25"), std::string::npos);
  EXPECT_EQ(text.find("\x1b[?1049"), std::string::npos);
}

}  // namespace
}  // namespace autotuned::daemon
