// SPDX-License-Identifier: Apache-2.0
// What is said of a run whose tuning is over and has confirmed nothing: it was stopped, it failed, or the script ended first.
#pragma once

#include <string>
#include <vector>

#include "base/trial.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Whether nothing is at work on the tuning of this run any more, and it has no result. False while it is tuned.
[[nodiscard]] bool is_unconfirmed(const storage::RunRow& run);

// Why, as a clause, and what was faster in a trial of it: "train.py ended before its tuning did; not confirmed:
// loader.workers 0 → 2, 1.49 x (1.22 to 1.57)". The script is named only where the reason is its own. For runs that are
// unconfirmed.
[[nodiscard]] std::string unconfirmed_text(const storage::RunRow& run,
                                           const std::vector<TrialRecord>& trials);

// What the history has of a script. Pointers are into the list that was looked at; null where there is none.
struct RunsOfScript {
  const storage::RunRow* tuned = nullptr;  // the newest of this text with a result
  const storage::RunRow* unconfirmed =
      nullptr;  // the newest of this text, where it is newer than `tuned`
  const storage::RunRow* of_other_text =
      nullptr;  // the newest with a result of a script of this name
};
// `runs`: newest first. `content`: the digest of the script's text.
[[nodiscard]] RunsOfScript find_runs_of_script(const std::vector<storage::RunRow>& runs,
                                               const std::string& content, const std::string& name);

}  // namespace autotuned::daemon
