// SPDX-License-Identifier: Apache-2.0
// Texts and JSON about a run whose job is a script of the user. Its row has no recipe: `recipe` is {"kind": "script",
// "name", "command", ...}, and `training` tells
//   steps              of the script, since its start
//   is_counted_to_end  false: up to the end of the tuning only
//   steps_under        what the steps of the tuning ran under: a list of {"change", "steps"}, in which an empty change is
//                      the script's own configuration
//   tuned_steps        their sum
//   tuning_cost_ns     what the tuning took beyond the time of its steps at the rate of the start
//   counted            "steps" where rates and numbers are of steps, for want of samples
//   budget_ns, is_budget_spent, beyond_budget, untried, shortage   as for a recipe's run (tuning_time.hpp)
//   places             where the script made what is tuned: {"device", "roots", "optimizers", "loaders"}, as `load` tells it
//   untuned            why the tuning did not come to its end: a sentence
//   untuned_cause      the cause in it, without a subject where the script is it: "ended before its tuning did"
//   is_untuned_by_script  whether the script is the subject
//   exit_code, signal  how the script ended
#pragma once

#include <string>

#include "base/json.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// A key of RunRow::training, and of the event `tuned`.
inline constexpr const char* kSearchedBy = "searched_by";
inline constexpr const char* kUntunedCause = "untuned_cause";
inline constexpr const char* kUntunedByScript = "is_untuned_by_script";

// Whether `recipe`, that column of a run, describes a script.
[[nodiscard]] bool is_script(const Json& recipe);

// That the search of an earlier run stands in for one of this run, and how to search again: a clause. Empty if that is
// not so, or not known. `training`: any object with the key kSearchedBy.
[[nodiscard]] std::string searched_by_text(const Json& training);

// "the script train.py: python3 train.py --epochs 2".
[[nodiscard]] std::string script_text(const Json& recipe);

// "620 as the script is, 480 with loader.workers 0 → 2"; for several changes only their number. Empty if no steps were
// made.
[[nodiscard]] std::string steps_under_text(const Json& training);

// How a script ended: "exit status 3", "signal 9 (Killed)".
[[nodiscard]] std::string end_text(const Json& training);

// The state of a run whose script has ended: "finished", "finished (exit status 3 of the script)", "interrupted (signal
// 2 (Interrupt))".
[[nodiscard]] std::string script_state_text(const storage::RunRow& run);

// What the script's own loggers get when its tuning ends: {"run", "change", "speedup", "faster"}; null if nothing was
// kept.
[[nodiscard]] Json kept_json(const storage::RunRow& run);

// A few lines for the script's terminal: what was kept, what it gives and what the tuning took.
[[nodiscard]] std::string tuned_text(const storage::RunRow& run);

}  // namespace autotuned::daemon
