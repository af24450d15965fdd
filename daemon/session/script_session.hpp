// SPDX-License-Identifier: Apache-2.0
// A session that tunes a script of the user while it trains: from its request to the end of the script.
//
// Whatever goes wrong here, the script trains on: the agent in it lets go when our end of the socket closes. As long as the
// script waits for an answer of ours nothing slow is done, so history and plugins are read before the agent is asked for the
// step of the script.
#pragma once

#include "base/descriptor.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/session/session_control.hpp"

namespace autotuned::daemon {

// REQUIRES: request.script. `agent`: our end of the socket that the script has inherited. Returns when the script has ended,
// or when there was nothing to tune.
void run_script_session(const SessionRequest& request, SessionControl& control, Descriptor agent);

}  // namespace autotuned::daemon
