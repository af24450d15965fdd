// SPDX-License-Identifier: Apache-2.0
// Starts the session for a training that runs in the user's own process with an agent. Used by `autotuned run` of a
// script and by `autotuned agent-session`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "base/process/process.hpp"
#include "daemon/supervisor/supervised_session.hpp"

namespace autotuned::daemon {

// Starts the session in `context`, on whose thread everything happens. `agent`: the session's end of the socket. The
// caller closes its copy once the context has run: while it is open, the agent does not learn that the session has
// ended. `what` is tuned, for the warning of a session that failed: "the script". `on_end` is called once, after the
// last event.
[[nodiscard]] std::shared_ptr<SupervisedSession> start_agent_session(
    boost::asio::io_context& context, SessionRequest request, const Descriptor& agent,
    const std::string& what, const SupervisedSession::OnEvent& on_event,
    std::function<void()> on_end);

// Says that the training is over and how it ended. The session has a few seconds to store that.
void tell_training_ended(SupervisedSession& session, const ProcessExit& exit);

}  // namespace autotuned::daemon
