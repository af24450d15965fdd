// SPDX-License-Identifier: Apache-2.0
// Runs a session until the run has ended: starts its process, passes its events on and, if it dies, starts it again
// without the plugin that hung or crashed it, or without the trial in which it died twice. A session that tunes a
// script is not started again: the agent in the script has already let go.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/frame.hpp"
#include "base/process/process.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/supervisor/own_process.hpp"
#include "daemon/supervisor/supervisor.hpp"

namespace autotuned::daemon {

// Everything happens on the thread that runs the context; nothing blocks it, not even a session process that
// is stopped. The handlers keep the session alive until it has ended.
class SupervisedSession : public std::enable_shared_from_this<SupervisedSession> {
 public:
  using OnEvent = std::function<void(const Json&)>;
  // The exit code of the command; an error when the session ended again and again or cannot start.
  using OnEnd = std::function<void(Result<int>)>;

  // `on_event` is called for every event in order, `on_end` once, after the last of them.
  SupervisedSession(boost::asio::io_context& context, SessionRequest request,
                    const SupervisorLimits& limits, SpawnOptions spawn_options, OnEvent on_event,
                    OnEnd on_end);

  void start();
  // The first time asks the session to stop cleanly within `grace`, with `request`; the second time ends it at once.
  void cancel(std::chrono::nanoseconds grace, const Json& request = {{"request", "cancel"}});
  // Kills the process without waiting for it, for the end of the supervisor: the kernel may not end it at once. Returns
  // false if there was no process any more.
  bool leave();

  // The PID of the session process; -1 before the first and after the last.
  [[nodiscard]] pid_t pid() const;
  // How often a session process was started again.
  [[nodiscard]] int restarts() const { return restarts_; }

 private:
  // One session process.
  struct Attempt;

  void begin();
  // Sends as much as the socket takes now, and the rest later.
  Result<void> tell(const Json& message);
  Result<void> send_unsent();
  void finish(Result<int> outcome);
  void wait_for_events();
  void wait_for_end();
  // False when the socket is finished.
  bool take_events();
  // Takes every frame that has arrived. Returns why there is no further one.
  Error take_what_is_there(Attempt& attempt);
  void take(const Json& event);
  bool is_progress(const Json& event);
  // After a death in this trial: whether the death before was in it, too, and it has not been given up yet.
  bool is_lost(const Json& trial);
  void expect_end();
  void conclude();
  // Ends the processes that the session has started and that outlive it: they may hold the device, for which the next
  // session waits.
  void end_leftovers() const;

  boost::asio::io_context* context_;
  SessionRequest request_;
  SupervisorLimits limits_;
  SpawnOptions spawn_options_;
  OnEvent on_event_;
  OnEnd on_end_;
  std::shared_ptr<Attempt> attempt_;
  boost::asio::steady_timer cancel_timer_;
  int cancels_ = 0;
  int unexplained_deaths_ = 0;
  std::int64_t highest_step_ = 0;  // of the training, as it was told
  int restarts_ = 0;
  std::string suspect_;             // the plugin that was working when the session was killed
  std::string last_deadly_;         // the trial in which the last session ended
  std::set<std::string> given_up_;  // trials in which sessions ended twice
};

}  // namespace autotuned::daemon
