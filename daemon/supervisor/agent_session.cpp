// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/agent_session.hpp"

#include <chrono>
#include <utility>

#include "daemon/common/orphans.hpp"
#include "daemon/common/owner_mark.hpp"

namespace autotuned::daemon {
namespace {

// How long the session may take to store its last rows.
constexpr std::chrono::nanoseconds kStoreLimit = std::chrono::seconds(5);

}  // namespace

std::shared_ptr<SupervisedSession> start_agent_session(boost::asio::io_context& context,
                                                       SessionRequest request,
                                                       const Descriptor& agent,
                                                       const std::string& what,
                                                       const SupervisedSession::OnEvent& on_event,
                                                       std::function<void()> on_end) {
  SpawnOptions spawn_options;
  spawn_options.variables = {std::string(kMarkVariable) + "=" + own_mark()};
  spawn_options.descriptors = {{agent.get(), kAgentDescriptor}};
  auto session = std::make_shared<SupervisedSession>(
      context, std::move(request), SupervisorLimits{}, std::move(spawn_options), on_event,
      [what, on_event, on_end = std::move(on_end)](const Result<int>& outcome) {
        if (!outcome) {
          on_event({{"event", "warning"},
                    {"text", what + " is not tuned any more: " + outcome.error().message()}});
        }
        on_end();
      });
  session->start();
  return session;
}

void tell_training_ended(SupervisedSession& session, const ProcessExit& exit) {
  const Json how = {{"code", exit.code}, {"signal", exit.signal}};
  session.cancel(kStoreLimit, {{"request", "cancel"}, {"script_ended", how}});
}

}  // namespace autotuned::daemon
