// SPDX-License-Identifier: Apache-2.0
// The row of a run in the history, as it begins, and as its tuning and an error leave it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"
#include "recipes/knobs.hpp"
#include "storage/history.hpp"
#include "tuner/session.hpp"

namespace autotuned::daemon {

// `as_given` is the recipe before knobs that are not known here were taken out.
[[nodiscard]] storage::RunRow new_run(const recipes::Recipe& as_given,
                                      const SessionRequest& request, const storage::RunKey& key,
                                      const std::vector<recipes::Knob>& knobs,
                                      std::int64_t started_unix_ns);

// What is left to do is to train.
void take_outcome(const tuner::SessionOutcome& outcome, storage::RunRow& run);

// What the search had no time for, as fields of `training` (daemon/report/script_report.hpp).
[[nodiscard]] Json end_of_search(const tuner::SessionOutcome& outcome,
                                 std::chrono::nanoseconds budget);

// What an error makes of a run that has begun: the state from which the same command goes on. True where that command
// continues the run as it is: nothing is wrong with it, once there is room or a lock is gone.
[[nodiscard]] bool take_end(const Error& error, std::int64_t ended_unix_ns, storage::RunRow& run);

// The comment above the recipe with the best configuration.
[[nodiscard]] std::string best_comment(const storage::RunRow& run);

}  // namespace autotuned::daemon
