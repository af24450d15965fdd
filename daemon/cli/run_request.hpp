// SPDX-License-Identifier: Apache-2.0
// The request that runs of recipes and of scripts both make from the options of `run`, and which process does the work
// if a launcher has started a command several times.
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

// The request with history, plugins and search options filled in, but without a recipe or a script.
[[nodiscard]] SessionRequest request_of(const RunOptions& options);

// ErrorKind::invalid names a path that is not UTF-8: the session gets paths as JSON, which would change it.
[[nodiscard]] Result<void> check_paths(const SessionRequest& request);

// The value of --budget; nothing if it was not given. ErrorKind::invalid: the value is not a duration.
[[nodiscard]] Result<std::optional<std::chrono::nanoseconds>> budget_of(const RunOptions& options);

// Runs `work` in the first of the processes that a launcher (torchrun, srun) has started on this machine; the others
// wait and end with the same exit code. `work` gets the place of the process, or null without a launcher. Returns the
// exit code.
[[nodiscard]] int once_for_launcher(const std::function<int(const LauncherRank* place)>& work);

// For example "torchrun has started 2 processes".
[[nodiscard]] std::string started_text(const LauncherRank& place);

// once_for_launcher() for a command that measures a recipe. `work` gets the ranks that a launcher has
// started, which standard error tells, and nothing without a launcher. Too many ranks are reported as
// a wrong use.
[[nodiscard]] int measure_once_for_launcher(
    const std::function<int(std::optional<int> ranks)>& work);

}  // namespace autotuned::daemon
