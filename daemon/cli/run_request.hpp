// SPDX-License-Identifier: Apache-2.0
// What runs of recipes and of scripts take over from the options of `run` alike, and who does the
// work where a launcher has started a command several times.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/supervisor/launched.hpp"

namespace autotuned::daemon {

// Its history, plugins and how it is searched; without a job.
[[nodiscard]] SessionRequest request_of(const RunOptions& options);

// ErrorKind::invalid names a path that is no UTF-8: the session gets paths as JSON, which would make others of them.
[[nodiscard]] Result<void> check_paths(const SessionRequest& request);

// --budget; nothing where it was not given. ErrorKind::invalid: it is no time.
[[nodiscard]] Result<std::optional<std::chrono::nanoseconds>> budget_of(const RunOptions& options);

// Of the processes that a launcher (torchrun, srun) has started on this machine the first one does
// `work`, which gets its place, and the others end as it does. Without a launcher `work` gets null.
// Returns the exit code.
[[nodiscard]] int once_for_launcher(const std::function<int(const LaunchPlace* place)>& work);

// "torchrun has started 2 processes".
[[nodiscard]] std::string started_text(const LaunchPlace& place);

// once_for_launcher() for a command that measures a recipe. `work` gets the ranks that a launcher has
// started, which standard error tells, and nothing without a launcher. Too many ranks are reported as
// a wrong use.
[[nodiscard]] int measure_once_for_launcher(
    const std::function<int(std::optional<int> ranks)>& work);

}  // namespace autotuned::daemon
