// SPDX-License-Identifier: Apache-2.0
// The daemon: queues runs, executes them one at a time for each device, and reports to watchers. It has one thread,
// which never waits for a client or a run.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "daemon/queue/limits.hpp"
#include "daemon/queue/queue_view.hpp"

namespace autotuned::daemon {

// Serves this user until SIGTERM, SIGINT, SIGHUP or a stop request; runs that are not finished then are continued
// by the next daemon. Errors: busy (there is one already), permission and io (socket or queue), and those of
// `make_view`, which may be empty. Call from the main thread.
[[nodiscard]] Result<void> serve(const std::filesystem::path& socket,
                                 const std::filesystem::path& store_folder,
                                 const DaemonLimits& limits, const MakeQueueView& make_view = {});

}  // namespace autotuned::daemon
