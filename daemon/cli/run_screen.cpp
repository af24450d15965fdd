// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/run_screen.hpp"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/printable.hpp"
#include "daemon/common/exit_codes.hpp"

namespace autotuned::daemon {

RunScreen::RunScreen() : view_(stderr, isatty(STDERR_FILENO) != 0) {}

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
  if (as_json) {
    // It may have ended before there was a run to tell about.
    if (!result_.is_object()) result_ = {{"run", nullptr}, {"error", problem_}};
    std::cout << to_line(result_) << "\n";
  } else if (!text_.empty()) {
    std::cout << "\n" << printable_lines(text_);
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
