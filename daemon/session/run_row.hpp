// SPDX-License-Identifier: Apache-2.0
// Makes the row of a run in the history, and changes it when the tuning ends and when an error ends the session.
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

// Puts the result of the tuning into the row. The state is `training` afterwards.
void take_outcome(const tuner::SessionOutcome& outcome, storage::RunRow& run);

// Says which trials ended after the budget and what the search had no time for, as keys of RunRow::training. If the run
// was continued, it is not known which trials of earlier processes ended so late.
[[nodiscard]] Json end_of_search(const tuner::SessionOutcome& outcome,
                                 std::chrono::nanoseconds budget, bool is_continued);

// Gives a run that has begun the state from which the same command continues it after this error. Returns true if nothing
// is wrong with the run itself: the command continues it unchanged, once there is room or a lock is gone.
[[nodiscard]] bool take_end(const Error& error, std::int64_t ended_unix_ns, storage::RunRow& run);

// Whether the same command would only end with this error again, such as with a loss that is not finite, a damaged
// checkpoint or an extension that the recipe itself turns on, until somebody changes what it works on.
[[nodiscard]] bool would_recur(const Error& error);

// Whether an earlier process of the run ended with the same defect, `before` its message: another one will, too.
[[nodiscard]] bool has_recurred(const Error& error, const std::string& before);

// The comment above the recipe with the best configuration.
[[nodiscard]] std::string best_comment(const storage::RunRow& run);

}  // namespace autotuned::daemon
