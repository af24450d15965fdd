// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/script_budget.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

// The part of a training that tuning takes at most, one in this many, unless the user gives a budget.
constexpr int kMaxBudgetShare = 5;
constexpr nanoseconds kMinBudget = std::chrono::seconds(20);

nanoseconds part_of_training(nanoseconds whole) {
  return std::max(kMinBudget, whole / kMaxBudgetShare);
}

}  // namespace

ScriptBudget choose_script_budget(const ScriptRequest& script, const storage::History& history,
                                  const storage::RunRow& run) {
  const ScriptBudget usual{recipes::Tune{}.budget, "--budget sets another time"};
  if (script.budget) return {*script.budget, "as --budget says"};
  storage::RunFilter same_job;
  same_job.recipe = run.recipe_hash;
  same_job.environment = run.environment_key;
  const auto runs = history.runs(same_job);
  if (!runs) return usual;
  for (const storage::RunRow& earlier : *runs) {
    // A run that ended with an error may have ended early, so its length says nothing.
    if (earlier.state != storage::RunState::finished ||
        earlier.ended_unix_ns <= earlier.started_unix_ns ||
        get_integer(earlier.training, "exit_code").value_or(0) != 0) {
      continue;
    }
    const nanoseconds whole(earlier.ended_unix_ns - earlier.started_unix_ns);
    const nanoseconds part = part_of_training(whole);
    if (part >= usual.time) return {usual.time, usual.because, /*is_by_earlier_run=*/true};
    const std::string last = "the " + format_duration(whole) + " that it ran here last";
    return {part,
            (part == kMinBudget ? "the least, for " : "a fifth of ") + last +
                "; --budget sets another time",
            /*is_by_earlier_run=*/true};
  }
  return usual;
}

std::optional<ShorterBudget> budget_within(nanoseconds left, const std::string& told_by,
                                           const ScriptBudget& budget) {
  const nanoseconds part = part_of_training(left);
  if (part >= budget.time) return std::nullopt;
  return ShorterBudget{part, "about " + format_duration(left) +
                                 " of training are left, by its variable '" + told_by +
                                 "': it is tuned for " + format_duration(part) + " at most, " +
                                 (part == kMinBudget ? "the least" : "a fifth of that") +
                                 "; --budget sets another time"};
}

}  // namespace autotuned::daemon
