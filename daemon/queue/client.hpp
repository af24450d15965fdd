// SPDX-License-Identifier: Apache-2.0
// The client's end of the daemon's socket: sends requests and follows a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/frame.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/queue/protocol.hpp"

namespace autotuned::daemon {

// One connection to the daemon. Calls block. Use it from one thread.
class DaemonClient {
 public:
  // Nothing when no daemon serves this user.
  [[nodiscard]] static Result<std::optional<DaemonClient>> connect();

  // Sends a request and returns the "ok" of the answer. ErrorKind::crashed: the daemon has ended; timeout: it does not
  // answer; other errors are the daemon's refusal.
  [[nodiscard]] Result<Json> ask(Json request);
  [[nodiscard]] FrameChannel& channel() { return channel_; }

 private:
  explicit DaemonClient(Descriptor socket) : channel_(std::move(socket)) {}

  FrameChannel channel_;
};

// Like connect(), for commands that need a daemon: ErrorKind::not_found says how to start one.
[[nodiscard]] Result<DaemonClient> connect_or_explain();

// Submits a run and returns its job number. If the daemon ends before it answers, the request is repeated; the token
// keeps the daemon from adding the job twice.
[[nodiscard]] Result<std::int64_t> submit(DaemonClient& client, const Submission& submission);

// Blocks SIGINT and SIGTERM until follow() handles them, so that none between submit() and follow() is lost. A SIGINT that is ignored
// stays so, here and in follow().
void hold_signals();

enum class OnInterrupt {
  cancel,  // the run; a second time ends it at once
  leave,   // the run goes on
};

struct Followed {
  bool has_left = false;  // before the run ended
  int exit_code = 0;      // of the run; its last events tell why
};

// Passes on the events of a job from its first to its last. When the daemon ends meanwhile, waits a few
// seconds for the next one. SIGINT and SIGTERM do what `on_interrupt` says. `on_tick`, if there is one, is called twice a
// second while the daemon says nothing.
[[nodiscard]] Result<Followed> follow(DaemonClient client, std::int64_t job,
                                      OnInterrupt on_interrupt,
                                      const std::function<void(const Json&)>& on_event,
                                      const std::function<void()>& on_tick = {});

}  // namespace autotuned::daemon
