// SPDX-License-Identifier: Apache-2.0
// What runs of recipes and of scripts take over from the options of `run` alike.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/session_request.hpp"

namespace autotuned::daemon {

// Its history, plugins and how it is searched; without a job.
[[nodiscard]] SessionRequest request_of(const RunOptions& options);

// ErrorKind::invalid names a path that is no UTF-8: the session gets paths as JSON, which would make others of them.
[[nodiscard]] Result<void> check_paths(const SessionRequest& request);

// --budget; nothing where it was not given. ErrorKind::invalid: it is no time.
[[nodiscard]] Result<std::optional<std::chrono::nanoseconds>> budget_of(const RunOptions& options);

}  // namespace autotuned::daemon
