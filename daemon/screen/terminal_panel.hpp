// SPDX-License-Identifier: Apache-2.0
// A few lines at the end of a terminal that are drawn again in place, below lines that stay. Nothing else may write to the
// terminal meanwhile.
//
// The terminal is never left in another state than before: the cursor stays visible, it waits on the empty line below the
// panel between two drawings, and a drawing is one write. So a process that is killed leaves an old panel and nothing to
// restore.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "daemon/screen/styled_line.hpp"

namespace autotuned::daemon {

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};

// The size of the terminal behind `out`; 80 by 24 if there is none, or if its size is not known.
[[nodiscard]] ScreenSize screen_size(std::FILE* out);

class TerminalPanel {
 public:
  // `out` must outlive the panel.
  explicit TerminalPanel(std::FILE* out) : out_(out) {}
  // Erases what is drawn.
  ~TerminalPanel();
  TerminalPanel(const TerminalPanel&) = delete;
  TerminalPanel& operator=(const TerminalPanel&) = delete;

  // `lasting` stays, and `panel` takes the place of the panel before it. The size is asked for at each drawing, so that a
  // window may change its size at any time.
  void draw(const std::vector<Line>& lasting, const std::vector<Line>& panel,
            const LineStyle& style, ScreenSize size);
  void erase();

 private:
  // The bytes that move the cursor to the first row of the panel.
  [[nodiscard]] std::string go_back(int columns) const;

  std::FILE* out_;
  std::vector<int> widths_;  // of the lines that are drawn
};

}  // namespace autotuned::daemon
