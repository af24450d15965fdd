// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/agent_supervisor.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "daemon/common/orphans.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/supervisor/supervised_session.hpp"

namespace autotuned::daemon {
namespace {

namespace asio = boost::asio;

// For the session, once the training is over: it has a few rows to write.
constexpr std::chrono::nanoseconds kStoreLimit = std::chrono::seconds(5);

class AgentSupervisor {
 public:
  AgentSupervisor() : end_(context_) {}

  Result<void> run(SessionRequest request, Descriptor agent, Descriptor end,
                   const std::function<void(const Json&)>& on_event);

 private:
  void wait_for_end();

  asio::io_context context_{1};
  asio::posix::stream_descriptor end_;
  std::shared_ptr<SupervisedSession> session_;
};

Result<void> AgentSupervisor::run(SessionRequest request, Descriptor agent, Descriptor end,
                                  const std::function<void(const Json&)>& on_event) {
  boost::system::error_code failed;
  end_.assign(end.get(), failed);
  if (failed) {
    return fail(ErrorKind::invalid, "the descriptor that tells the end cannot be waited for",
                failed.message(), "hand down a pipe");
  }
  static_cast<void>(end.release());
  SpawnOptions spawn_options;
  spawn_options.variables = {std::string(kJobVariable) + "=" + own_mark()};
  spawn_options.descriptors = {{agent.get(), kAgentDescriptor}};
  session_ = std::make_shared<SupervisedSession>(
      context_, std::move(request), SupervisorLimits{}, std::move(spawn_options), on_event,
      [this, on_event](const Result<int>& outcome) {
        if (!outcome) {
          on_event({{"event", "warning"},
                    {"text", "the training is not tuned any more: " + outcome.error().message()}});
        }
        end_.close();
      });
  session_->start();
  wait_for_end();
  // Once the session has its own: with this one open, the agent would not learn of the session's end.
  asio::post(context_, [&agent] { agent.reset(); });
  context_.run();
  return {};
}

void AgentSupervisor::wait_for_end() {
  end_.async_wait(asio::posix::stream_descriptor::wait_read,
                  [this](const boost::system::error_code& error) {
                    if (error) return;
                    const Json how = {{"code", 0}, {"signal", 0}};
                    session_->cancel(kStoreLimit, {{"request", "cancel"}, {"script_ended", how}});
                  });
}

}  // namespace

Result<void> supervise_agent(SessionRequest request, Descriptor agent, Descriptor end,
                             const std::function<void(const Json&)>& on_event) {
  AgentSupervisor supervisor;
  return supervisor.run(std::move(request), std::move(agent), std::move(end), on_event);
}

}  // namespace autotuned::daemon
