// SPDX-License-Identifier: Apache-2.0
// Supervises the session for a training whose process has started us and passed us a socket to its agent:
// `autotuned.session()` of the Python package.
#pragma once

#include <functional>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"

namespace autotuned::daemon {

// Runs the session to its end. `agent` is its end of the socket. The training is over when `end`, a pipe or a socket,
// has something to read or no writer any more: the session then stores its results so far. `on_event` is called for
// every event of the session, in order, on this thread; a session that dies is a warning. Errors: `end` cannot be
// waited for. Call from the main thread, before there are others.
[[nodiscard]] Result<void> supervise_agent(SessionRequest request, Descriptor agent, Descriptor end,
                                           const std::function<void(const Json&)>& on_event);

}  // namespace autotuned::daemon
