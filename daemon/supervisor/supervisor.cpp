// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/supervisor.hpp"

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "base/process/process.hpp"
#include "daemon/common/orphans.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/common/stop_requests.hpp"
#include "daemon/supervisor/supervised_session.hpp"

namespace autotuned::daemon {

namespace {

constexpr auto kTickEvery = std::chrono::milliseconds(500);
// How long to wait until killed processes are gone.
constexpr std::chrono::nanoseconds kRestLimit = std::chrono::seconds(2);

}  // namespace

Result<int> supervise(SessionRequest request, const SupervisorLimits& limits,
                      const std::function<void(const Json&)>& on_event,
                      const std::function<void()>& on_tick) {
  boost::asio::io_context context{1};
  boost::asio::signal_set signals(context, SIGTERM);
  for (const int signal : {SIGINT, SIGHUP}) {
    if (!is_ignored(signal)) signals.add(signal);
  }
  boost::asio::steady_timer ticks(context);
  bool has_ended = false;
  StopRequests requests;
  Result<int> outcome = fail(ErrorKind::internal, "the session was not started");
  SpawnOptions spawn_options;
  spawn_options.variables = {std::string(kMarkVariable) + "=" + own_mark()};
  const auto session =
      std::make_shared<SupervisedSession>(context, std::move(request), limits,
                                          std::move(spawn_options), on_event, [&](Result<int> end) {
                                            outcome = std::move(end);
                                            has_ended = true;
                                            signals.cancel();
                                            ticks.cancel();
                                          });
  const std::function<void()> wait_for_signal = [&] {
    signals.async_wait([&](const boost::system::error_code& error, int signal) {
      if (error) return;
      if (requests.take(signal, std::chrono::steady_clock::now())) {
        session->cancel(limits.cancel_grace);
      }
      wait_for_signal();
    });
  };
  wait_for_signal();
  // Cancelling a timer does not stop a call that is already due, so the call looks at has_ended.
  const std::function<void()> wait_for_tick = [&] {
    ticks.expires_after(kTickEvery);
    ticks.async_wait([&](const boost::system::error_code& error) {
      if (error || has_ended) return;
      on_tick();
      wait_for_tick();
    });
  };
  if (on_tick) wait_for_tick();
  session->start();
  context.run();
  // A process that has left the process group of its trainer outlives the trainer, and may hold the device.
  end_own(kRestLimit);
  return outcome;
}

}  // namespace autotuned::daemon
