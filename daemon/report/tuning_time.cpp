// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/tuning_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/text.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

// The last pair of blocks may end so much later: nobody needs to know why.
constexpr std::int64_t kMinOverrunNs = 1'000'000'000;

// The proposals without a trial. Empty where none is left.
std::string untried_proposals_text(const storage::RunRow& run, bool is_whole) {
  const Json& training = run.training;
  const Json& untried = member(training, "untried");
  const std::string spent =
      "what was left of the budget of " +
      format_duration(nanoseconds(get_integer(training, "budget_ns").value_or(0))) +
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

// "the confirmation of CHANGE (trial 3) was not decided: the next run tries it again"; empty if none ended undecided.
std::string open_confirmation_text(const std::vector<TrialRecord>& trials) {
  const auto last = std::find_if(trials.rbegin(), trials.rend(), [](const TrialRecord& trial) {
    return trial.kind == TrialKind::confirmation && is_undecided(trial);
  });
  if (last == trials.rend()) return {};
  return fmt::format(
      "the confirmation of {} (trial {}) was not decided: the next run tries it again",
      change_text(last->reference, last->change), last->number);
}

// What an earlier run kept, if its verification ended undecided and nothing else was found; else empty.
std::string open_verification_text(const storage::RunRow& run,
                                   const std::vector<TrialRecord>& trials) {
  if (run.best.empty() || !run.starting.change_to(run.best).empty()) return {};
  const auto found = std::ranges::find_if(trials, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::verification && is_undecided(trial);
  });
  if (found == trials.end()) return {};
  return fmt::format(
      "the verification of {} (trial {}) was not decided{}\n"
      "it is {}\n"
      "it stays stored, and the next run verifies it again{}\n",
      change_text(found->reference, found->change), found->number,
      found->estimate.pairs > 0 ? " in its time: " + estimate_text(found->estimate) : "",
      found->proposal_reason, found->failure ? "" : "; --budget gives it more time");
}

// The proposals without a trial, as briefly as a line of 80 columns wants it. Empty where none is left.
std::string untried_count_text(const Json& training) {
  const Json& untried = member(training, "untried");
  if (!untried.is_array() || untried.empty()) return {};
  return fmt::format(
      "{} not tried in this run{}: {}\n{}; --budget gives more time\n",
      format_counted(static_cast<std::int64_t>(untried.size()), "proposal"),
      untried.size() == 1 ? "" : ", most promising", get_string(untried[0], "plugin").value_or("?"),
      untried.size() == 1 ? "the next run goes on with it" : "the next run goes on with them");
}

}  // namespace

std::string overrun_text(const storage::RunRow& run) {
  const std::int64_t budget_ns = get_integer(run.training, "budget_ns").value_or(0);
  if (budget_ns <= 0 || run.tuning_duration_ns - budget_ns < kMinOverrunNs) return {};
  std::string text = "the budget was " + format_duration(nanoseconds(budget_ns));
  const Json& beyond = member(run.training, kBeyondBudget);
  if (!beyond.is_array()) return text;  // not known
  if (beyond.empty()) return text + ", and measurements outside of trials ended after that";
  std::string trials;
  for (const Json& trial : beyond) {
    trials +=
        fmt::format("{}trial {} ({})", trials.empty() ? "" : " and ",
                    get_integer(trial, "trial").value_or(0), get_string(trial, "by").value_or("?"));
  }
  return text + ", and " + trials + " ended after that";
}

bool has_untried(const Json& training) {
  return training.contains(kShortage) || !member(training, "untried").empty();
}

std::string untried_text(const storage::RunRow& run, bool is_whole) {
  if (std::string text = shortage_text(run.training); !text.empty()) return text;
  const std::string proposals = untried_proposals_text(run, is_whole);
  return proposals.empty() ? proposals : "not tried: " + proposals;
}

std::string open_lines(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  std::string text = open_confirmation_text(trials);
  if (!text.empty()) text += "\n";
  text += open_verification_text(run, trials);
  const std::string shortage = shortage_text(run.training);
  text += shortage.empty() ? untried_count_text(run.training) : shortage;
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += (at == 0 ? "open     " : "         ") + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return lines;
}

}  // namespace autotuned::daemon
