// SPDX-License-Identifier: Apache-2.0
// Runs the user's script, and beside it a session that tunes it while it trains.
//
// Both are children of this process, and neither is the other's: a session that ends, crashes or hangs takes nothing from
// the script. The script has our process group, so the terminal's signals (Ctrl-C, Ctrl-Z, hang-up) reach it by themselves;
// what somebody sends to this process is passed on. The session has a group of its own, and ends with this process.
#pragma once

#include <functional>

#include "base/json.hpp"
#include "base/process/process.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/supervisor/script_process.hpp"

namespace autotuned::daemon {

// The variable that tells the agent in the script which descriptor is its end of the socket.
inline constexpr const char* kScriptSocketVariable = "AUTOTUNED_SCRIPT_SOCKET";

// Runs the command of `spec` to its end, whatever becomes of the session, and tells how it ended. Its socket, signals and
// the variable above are filled in here. `on_event` is called for every event of the session, in order, on this thread;
// a session that cannot be started is a warning. Errors: the command cannot be started. Call from the main thread, before
// there are others.
[[nodiscard]] Result<ProcessExit> supervise_script(
    SessionRequest request, ScriptSpec spec, const std::function<void(const Json&)>& on_event);

}  // namespace autotuned::daemon
