// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/supervisor.hpp"

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "base/process/process.hpp"
#include "daemon/common/orphans.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/supervisor/supervised_session.hpp"

namespace autotuned::daemon {

Result<int> supervise(SessionRequest request, const SupervisorLimits& limits,
                      const std::function<void(const Json&)>& on_event) {
  boost::asio::io_context context{1};
  boost::asio::signal_set signals(context, SIGTERM);
  if (!is_ignored(SIGINT)) signals.add(SIGINT);
  Result<int> outcome = fail(ErrorKind::internal, "the session was not started");
  Surroundings surroundings;
  surroundings.variables = {std::string(kJobVariable) + "=" + own_mark()};
  const auto session = std::make_shared<SupervisedSession>(
      context, std::move(request), limits, std::move(surroundings), on_event, [&](Result<int> end) {
        outcome = std::move(end);
        signals.cancel();
      });
  const std::function<void()> wait_for_signal = [&] {
    signals.async_wait([&](const boost::system::error_code& error, int) {
      if (error) return;
      session->cancel(limits.cancel_grace);
      wait_for_signal();
    });
  };
  wait_for_signal();
  session->start();
  context.run();
  return outcome;
}

}  // namespace autotuned::daemon
