// SPDX-License-Identifier: Apache-2.0
// How long a script is tuned. The tuning takes a fifth of the training at most, if the length of the training is known.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "daemon/common/session_request.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

struct ScriptBudget {
  std::chrono::nanoseconds time{0};
  std::string because;             // a clause for people
  bool is_by_earlier_run = false;  // by the time that a whole run took here
};

// The budget of --budget, else a part of the time of the last whole run of this job on this machine, else the default. `run`: the
// run that begins.
[[nodiscard]] ScriptBudget choose_script_budget(const ScriptRequest& script,
                                                const storage::History& history,
                                                const storage::RunRow& run);

// A shorter budget and the note about it.
struct ShorterBudget {
  std::chrono::nanoseconds time{0};
  std::string note;
};

// The budget for a training that lasts `left` more without tuning, as the script's variable `told_by` says; nothing if `budget` is
// short enough.
[[nodiscard]] std::optional<ShorterBudget> budget_within(std::chrono::nanoseconds left,
                                                         const std::string& told_by,
                                                         const ScriptBudget& budget);

}  // namespace autotuned::daemon
