// SPDX-License-Identifier: Apache-2.0
// What a session sees to before it goes on with a run that another process began.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/session_request.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

struct ClaimedRun {
  std::optional<storage::RunRow> run;  // nothing: a new one is to begin
  Descriptor claim;                    // of that run, see History::claim()
};

// The run that the request goes on with, as it is once nobody else is at work on it: whoever was may have ended it
// while the claim waited, and then another one or none is to be gone on with.
[[nodiscard]] Result<ClaimedRun> claim_run(const storage::History& history,
                                           const SessionRequest& request,
                                           const std::string& recipe_hash,
                                           const std::string& environment);

// Stores those faults that the run has not on record: whoever told of them may have told of them before.
[[nodiscard]] Result<void> put_faults(storage::History& history, const RunId& run,
                                      const std::vector<PluginFault>& faults,
                                      std::int64_t asked_unix_ns);

}  // namespace autotuned::daemon
