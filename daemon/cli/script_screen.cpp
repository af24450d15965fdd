// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/script_screen.hpp"

#include <chrono>
#include <iostream>
#include <sstream>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace autotuned::daemon {
namespace {

// All lines at once: the script writes there too.
void say(const std::string& text) {
  std::istringstream lines(printable_lines(text));
  std::string whole;
  for (std::string line; std::getline(lines, line);)
    whole += "autotuned: " + line + "\n";
  std::cerr << whole << std::flush;
}

}  // namespace

void ScriptScreen::show(const Json& event) const {
  const std::string name = get_string(event, "event").value_or("");
  const std::string text = get_string(event, "text").value_or("");
  if (name == "run") {
    const std::chrono::nanoseconds budget(get_integer(event, "budget_ns").value_or(0));
    const std::string because = get_string(event, "budget_because").value_or("");
    say(name_ + " is tuned on its own steps, for " + format_duration(budget) + " at most" +
        (because.empty() ? "" : ": " + because) + " (run " +
        get_string(event, "run").value_or("?") + ")");
  } else if (name == "untuned") {
    const bool is_begun = get_bool(event, "is_begun").value_or(false);
    say(name_ + (is_begun ? " is no longer tuned: " : " is not tuned: ") + text);
  } else if (name == "warning" || name == "note" || name == "tuned") {
    say(text);
  }
}

}  // namespace autotuned::daemon
