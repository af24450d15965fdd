// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/terminal_panel.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace autotuned::daemon {

namespace {

constexpr const char* kEraseRestOfLine = "\x1b[K";
constexpr const char* kEraseBelow = "\x1b[J";
// A terminal may need more columns for a character than utf8proc says. Without wrapping, such a line is cut instead of
// taking two rows.
constexpr const char* kWrapOff = "\x1b[?7l";
constexpr const char* kWrapOn = "\x1b[?7h";

// In the background of a shell, which has the terminal then.
bool is_in_background(std::FILE* out) {
  const pid_t front = ::tcgetpgrp(::fileno(out));
  return front != -1 && front != ::getpgrp();
}

}  // namespace

ScreenSize screen_size(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.columns = size.ws_col, .rows = size.ws_row};
}

TerminalPanel::~TerminalPanel() {
  erase();
}

std::string TerminalPanel::go_back(int columns) const {
  int rows = 0;
  // A window that has become narrower has broken our lines into several rows.
  for (const int width : widths_)
    rows += std::max((width + columns - 1) / columns, 1);
  return rows > 0 ? fmt::format("\r\x1b[{}A", rows) : std::string();
}

void TerminalPanel::draw(const std::vector<Line>& lasting, const std::vector<Line>& panel,
                         const LineStyle& style, ScreenSize size) {
  std::string text = go_back(size.columns);
  LineStyle whole = style;
  whole.columns = 0;
  // These may be wider than the window: a path, say. The terminal breaks them.
  for (const Line& line : lasting) {
    text += drawn(line, whole);
    // Behind a line that fills its last row the cursor still stands on its last character, which would be erased.
    const int width = columns_of(line);
    if (width == 0 || width % size.columns != 0) text += kEraseRestOfLine;
    text += "\n";
  }
  const bool is_shown = !panel.empty() && !is_in_background(out_);
  // The cursor takes one row.
  const std::size_t most = is_shown ? static_cast<std::size_t>(std::max(size.rows - 1, 0)) : 0;
  const std::size_t count = std::min(panel.size(), most);
  widths_.clear();
  if (count > 0) text += kWrapOff;
  for (std::size_t i = 0; i < count; ++i) {
    text += drawn(panel[i], style) + kEraseRestOfLine + "\n";
    widths_.push_back(std::min(columns_of(panel[i]), style.columns));
  }
  if (count > 0) text += kWrapOn;
  // Also where nothing takes the place of the old panel: the next line may be short, and not ours.
  if (!text.empty()) text += kEraseBelow;
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

void TerminalPanel::erase() {
  if (widths_.empty()) return;
  const std::string text = go_back(screen_size(out_).columns) + kEraseBelow;
  widths_.clear();
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace autotuned::daemon
