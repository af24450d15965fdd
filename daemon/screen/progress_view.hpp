// SPDX-License-Identifier: Apache-2.0
// Shows a run to a person as it happens: on a terminal as lines that stay with a live panel below them, elsewhere as lines
// alone, few of them.
#pragma once

#include <chrono>
#include <cstdio>

#include "base/json.hpp"
#include "daemon/screen/run_progress.hpp"
#include "daemon/screen/styled_line.hpp"
#include "daemon/screen/terminal_panel.hpp"

namespace autotuned::daemon {

struct ScreenView {
  bool is_live = false;  // `out` is a terminal that can draw a panel
  bool is_coloured = false;
  bool is_only_watched = false;  // Ctrl-C leaves the run alone
  bool is_verbose = false;  // every line that there is: plugins with nothing to try, reasons, rungs
};

// One thread. A live view writes to `out` alone (terminal_panel.hpp).
class ProgressView {
 public:
  // `out` must outlive the view. A live one draws its panel at once.
  ProgressView(std::FILE* out, const ScreenView& options);

  // Shows an event of a session (docs/architecture.md). Unknown events are ignored.
  void show(const Json& event);
  // Draws the panel again: time goes on without events too.
  void tick();
  // Removes the panel. To be called before other output.
  void finish();

 private:
  [[nodiscard]] LineStyle style(int columns) const;
  void draw(const std::vector<Line>& lasting);

  std::FILE* out_;
  ScreenView options_;
  RunProgress progress_;
  TerminalPanel panel_;
  bool is_finished_ = false;
  std::chrono::nanoseconds drawn_at_{0};
};

}  // namespace autotuned::daemon
