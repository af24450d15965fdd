// SPDX-License-Identifier: Apache-2.0
// Texts about the time for tuning: how far it went beyond its budget, and what there was no time for. They are about keys
// of RunRow::training:
//   budget_ns        the budget
//   is_budget_spent  whether something was left to try, but no time
//   beyond_budget    the trials that ended after the budget: [{"trial", "by"}], with the plugin of a proposal, else the
//                    kind of the trial; of a continued run those of its last process, and null instead of none; missing
//                    in runs of older versions
//   untried          the proposals without a trial, the most promising first: [{"plugin", "change"}]
//   shortage         why the budget did not suffice for any trial, and which one would
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/trial.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

inline constexpr const char* kBeyondBudget = "beyond_budget";
inline constexpr const char* kShortage = "shortage";
// The text for a run in which every proposal was tried, but some not long enough to be decided.
inline constexpr const char* kNoSecondLook =
    "the budget did not suffice for a second look at what was close; --budget gives more time";

// "the budget was 1 min 30 s, and trial 4 (confirmation) ended after that". Empty if the tuning took no longer than its
// budget and a second.
[[nodiscard]] std::string overrun_text(const storage::RunRow& run);

// Whether something is known to be untried because the time was too short.
[[nodiscard]] bool has_untried(const Json& training);

// What there was no time to try, as sentences: of several proposals the first and how many there are, or a line for each (`is_whole`).
// Empty where there is nothing of the kind.
[[nodiscard]] std::string untried_text(const storage::RunRow& run, bool is_whole = false);

// What is left to try, as lines of a summary behind the label `open`: a confirmation that was not decided, and what there
// was no time for, of proposals their number and the plugin of the most promising one. Empty for nothing.
[[nodiscard]] std::string open_lines(const storage::RunRow& run,
                                     const std::vector<TrialRecord>& trials);

}  // namespace autotuned::daemon
