// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/run_screen.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <system_error>

#include "daemon/common/exit_codes.hpp"
#include "daemon/screen/run_lines.hpp"

namespace autotuned::daemon {

namespace {

bool is_terminal(int descriptor) {
  return ::isatty(descriptor) != 0;
}

// Whether the terminal can draw a panel: TERM=dumb means that it cannot.
bool can_draw() {
  const char* const terminal = std::getenv("TERM");
  return is_terminal(STDERR_FILENO) && terminal != nullptr && std::string_view(terminal) != "dumb";
}

LineStyle style_of_card(const ScreenOptions& options) {
  const bool is_shown = is_terminal(STDOUT_FILENO);
  return {.columns = is_shown ? std::max(screen_size(stdout).columns - 1, 1) : 0,
          .is_coloured = is_coloured(options.color, is_shown),
          .is_verbose = options.is_verbose,
          .has_panel = false};
}

}  // namespace

RunScreen::RunScreen(const ScreenOptions& options, Viewer viewer)
    : options_(options),
      view_(stderr, {.is_live = can_draw(),
                     .is_coloured = is_coloured(options.color, is_terminal(STDERR_FILENO)),
                     .is_only_watched = viewer == Viewer::watcher,
                     .is_verbose = options.is_verbose}) {}

void RunScreen::show(const Json& event) {
  view_.show(event);
  const std::string name = get_string(event, "event").value_or("");
  if (name == "run") has_begun_ = true;
  if (name == "error") problem_ = get_string(event, "text").value_or("");
  if (name != "result") return;
  result_ = member(event, "result");
  text_ = get_string(event, "text").value_or("");
}

int RunScreen::conclude(const Result<int>& outcome, bool as_json, bool require_gain) {
  if (!outcome) {
    problem_ = outcome.error().message();
    view_.show({{"event", "error"}, {"text", problem_}});
  }
  view_.finish();
  if (as_json) {
    // The run may have failed before it was stored.
    if (!result_.is_object()) result_ = {{"run", nullptr}, {"error", problem_}};
    std::cout << to_line(result_) << "\n";
  } else if (result_.is_object()) {
    std::error_code unknown;
    const LineStyle style = style_of_card(options_);
    // A path that is wider than the terminal stays whole.
    LineStyle whole = style;
    whole.columns = 0;
    const auto here = std::filesystem::current_path(unknown);
    for (const Line& line : card_lines(result_, text_, here, style))
      std::cout << drawn(line, whole) << "\n";
    std::cout << std::flush;
  }
  if (!outcome) return kWorkFailed;
  if (*outcome == kCancelled) {
    std::cerr << (has_begun_ ? "cancelled; the same `autotuned run` command continues it\n"
                             : "cancelled before it began\n");
  }
  if (*outcome == kDone && require_gain) {
    const double low = get_number(member(result_, "best"), "speedup_low").value_or(1.0);
    if (low <= 1.0) return kNothingFaster;
  }
  return *outcome;
}

}  // namespace autotuned::daemon
