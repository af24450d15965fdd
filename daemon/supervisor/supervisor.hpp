// SPDX-License-Identifier: Apache-2.0
// Runs sessions: starts the session process of a run, passes its events on, starts it again without a
// plugin that hung or crashed it, and ends it when asked.
#pragma once

#include <chrono>
#include <functional>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"

namespace autotuned::daemon {

struct SupervisorLimits {
  // A policy answers from numbers it is given: milliseconds. Longer means that it hangs.
  std::chrono::nanoseconds plugin_answer = std::chrono::seconds(2);
  // After a cancel, before the session is ended by force: training writes a checkpoint first.
  std::chrono::nanoseconds cancel_grace = std::chrono::seconds(45);
  // The run ends if the session dies more often than this with no plugin to blame and no progress in between.
  int unexplained_deaths = 2;
};

// Runs one run to its end and returns the exit code of the command. SIGINT, SIGTERM and SIGHUP ask the session
// to stop cleanly; a second request (StopRequests) ends it at once. SIGINT and SIGHUP stay ignored if they are.
// `on_event` is called on this thread for every event, in order, and `on_tick`, if there is one, twice a second,
// whatever the session does. Call from the main thread.
[[nodiscard]] Result<int> supervise(SessionRequest request, const SupervisorLimits& limits,
                                    const std::function<void(const Json&)>& on_event,
                                    const std::function<void()>& on_tick = {});

}  // namespace autotuned::daemon
