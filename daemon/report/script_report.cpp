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

namespace autotuned::daemon {
namespace {

// The proposals without a trial. Empty where none is left.
std::string untried_proposals_text(const storage::RunRow& run, bool is_whole) {
  const Json& training = run.training;
  const Json& untried = member(training, "untried");
  const std::string spent =
      "what was left of the budget of " +
      format_duration(std::chrono::nanoseconds(get_integer(training, "budget_ns").value_or(0))) +
      " is too short for a trial\n";
  std::vector<std::string> proposals;
  for (const Json& proposal : untried) {
    proposals.push_back(fmt::format("{} ({})", get_string(proposal, "change").value_or("?"),
                                    get_string(proposal, "plugin").value_or("?")));
  }
  if (proposals.size() == 1) {
    return proposals.front() + ": " + spent +
           "the next run goes on with it; --budget gives more time\n";
  }
  if (proposals.size() > 1 && !is_whole) {
    return fmt::format(
        "{} proposals, the first is {}: {}"
        "the next run goes on with them; --budget gives more time; `autotuned explain {} "
        "--verbose` lists them\n",
        proposals.size(), proposals.front(), spent, run.id.text);
  }
  if (!proposals.empty()) {
    std::string text = fmt::format("{} proposals: {}", proposals.size(), spent);
    for (const std::string& proposal : proposals)
      text += "  " + proposal + "\n";
    return text + "the next run goes on with them; --budget gives more time\n";
  }
  return {};
}

// That there was no time for any trial, or for a second look. Empty where neither is so.
std::string shortage_text(const Json& training) {
  if (const auto shortage = get_string(training, kShortage)) {
    return "nothing new was tried: " + *shortage + "\n";
  }
  const bool is_spent = get_bool(training, "is_budget_spent").value_or(false);
  if (!is_spent || !member(training, "untried").empty()) return {};
  return std::string(kNoSecondLook) + "\n";
}

}  // namespace

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
                            changes == 1 ? change : fmt::format("one of {} changes", changes));
}

bool has_untried(const Json& training) {
  return training.contains(kShortage) || !member(training, "untried").empty();
}

std::string untried_text(const storage::RunRow& run, bool is_whole) {
  if (std::string text = shortage_text(run.training); !text.empty()) return text;
  const std::string proposals = untried_proposals_text(run, is_whole);
  return proposals.empty() ? proposals : "not tried: " + proposals;
}

// The label says that nothing of it was tried.
std::string untried_lines(const storage::RunRow& run) {
  std::string text = shortage_text(run.training);
  if (text.empty()) text = untried_proposals_text(run, /*is_whole=*/false);
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += (at == 0 ? "untried  " : "         ") + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return lines;
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
  if (const auto cost_ns = get_integer(run.training, "tuning_cost_ns")) {
    text += fmt::format(", {} more than its steps take as the script is",
                        format_duration(std::chrono::nanoseconds(*cost_ns)));
  }
  const std::string steps = steps_under_text(run.training);
  if (!steps.empty()) text += "\nsteps    of the training: " + steps;
  return text + "\n" + untried_lines(run);
}

}  // namespace autotuned::daemon
