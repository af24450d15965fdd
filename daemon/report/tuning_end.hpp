// SPDX-License-Identifier: Apache-2.0
// Texts about a run whose tuning is over and has confirmed nothing: it was stopped, it failed, or the script ended
// first.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Whether the tuning of this run is over without a result. False while it is being tuned.
[[nodiscard]] bool is_unconfirmed(const storage::RunRow& run);

// Why nothing is confirmed, as a clause, and which changes were faster in a trial: "train.py ended before its tuning
// did; not confirmed: loader.workers 0 → 2, 1.49 x (1.22 to 1.57)". The script is named only where the reason is its
// own. For runs that are unconfirmed.
[[nodiscard]] std::string unconfirmed_text(const storage::RunRow& run,
                                           const std::vector<TrialRecord>& trials);

// The runs of a script in the history. Pointers into the list that was searched; null if there is no such run.
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

// Returns the ids of those of these runs whose whole was compared with the start and not confirmed. Errors: those of the history.
[[nodiscard]] Result<std::set<std::string>> unconfirmed_of(
    const storage::History& history, const std::vector<storage::RunRow>& runs);

}  // namespace autotuned::daemon
