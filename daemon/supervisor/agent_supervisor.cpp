// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/agent_supervisor.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "daemon/supervisor/agent_session.hpp"

namespace autotuned::daemon {
namespace {

namespace asio = boost::asio;

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
  session_ = start_agent_session(context_, std::move(request), agent, "the training", on_event,
                                 [this] { end_.close(); });
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
                    tell_training_ended(*session_, ProcessExit{});
                  });
}

}  // namespace

Result<void> supervise_agent(SessionRequest request, Descriptor agent, Descriptor end,
                             const std::function<void(const Json&)>& on_event) {
  AgentSupervisor supervisor;
  return supervisor.run(std::move(request), std::move(agent), std::move(end), on_event);
}

}  // namespace autotuned::daemon
