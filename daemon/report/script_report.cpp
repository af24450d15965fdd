// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/script_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/tuning_time.hpp"

namespace autotuned::daemon {

bool is_script(const Json& recipe) {
  return get_string(recipe, "kind").value_or("") == "script";
}

std::string searched_by_text(const Json& training) {
  const std::string run = get_string(training, kSearchedBy).value_or("");
  if (run.empty()) return {};
  return "the search of run " + run + " is taken; --retune searches again";
}

std::string script_text(const Json& recipe) {
  std::string text = "the script " + get_string(recipe, "name").value_or("?") + ":";
  for (const Json& word : member(recipe, "command"))
    text += " " + (word.is_string() ? word.get<std::string>() : word.dump());
  return text;
}

std::string steps_under_text(const Json& training) {
  std::int64_t own = 0;
  std::int64_t others = 0;
  int changes = 0;
  std::string change;
  for (const Json& part : member(training, "steps_under")) {
    const std::int64_t steps = get_integer(part, "steps").value_or(0);
    const std::string told = get_string(part, "change").value_or("");
    (told.empty() ? own : others) += steps;
    if (told.empty()) continue;
    ++changes;
    change = told;
  }
  if (own == 0 && changes == 0) return {};
  std::string text = format_count(own) + " as the script is";
  if (changes == 0) return text;
  return text + fmt::format(", {} with {}", format_count(others),
                            changes == 1
                                ? change
                                : fmt::format("one of the {} changes that were tried", changes));
}

std::string end_text(const Json& training) {
  const std::int64_t signal = get_integer(training, "signal").value_or(0);
  if (signal == 0) {
    return fmt::format("exit status {}", get_integer(training, "exit_code").value_or(0));
  }
  const char* const name = sigdescr_np(static_cast<int>(signal));
  return fmt::format("signal {} ({})", signal, name != nullptr ? name : "unknown");
}

std::string script_state_text(const storage::RunRow& run) {
  const std::string state(storage::to_string(run.state));
  if (run.state == storage::RunState::cancelled)
    return "interrupted (" + end_text(run.training) + ")";
  const bool is_by_itself = run.state == storage::RunState::finished;
  if (is_by_itself && get_integer(run.training, "exit_code").value_or(0) != 0) {
    return state + " (" + end_text(run.training) + " of the script)";
  }
  return state;
}

Json kept_json(const storage::RunRow& run) {
  const Configuration change = run.starting.change_to(run.best);
  if (run.best.empty() || change.empty()) return nullptr;
  return {{"run", run.id.text},
          {"change", change_text(run.starting, change)},
          {"speedup", run.speedup.ratio},
          {"faster", estimate_text(run.speedup)}};
}

std::string tuned_text(const storage::RunRow& run) {
  const Configuration change = run.starting.change_to(run.best);
  std::string text;
  if (run.best.empty() || change.empty()) {
    text = "nothing was confirmed to be faster: the script goes on as it is\n";
  } else {
    text = fmt::format("kept     {}\nfaster   {}\n", change_text(run.starting, change),
                       estimate_text(run.speedup));
  }
  if (const std::string taken = searched_by_text(run.training); !taken.empty()) {
    text += "search   " + taken + "\n";
  }
  text += "tuning   " + format_duration(std::chrono::nanoseconds(run.tuning_duration_ns));
  if (const auto cost_ns = get_integer(run.training, "tuning_cost_ns"); cost_ns && *cost_ns > 0) {
    text += fmt::format(", {} more than its steps take as the script is",
                        format_duration(std::chrono::nanoseconds(*cost_ns)));
  }
  text += "\n";
  if (const std::string overrun = overrun_text(run); !overrun.empty()) {
    text += "         " + overrun + "\n";
  }
  const std::string steps = steps_under_text(run.training);
  if (!steps.empty()) text += "steps    of the training: " + steps + "\n";
  return text + open_lines(run, {});
}

}  // namespace autotuned::daemon
