// SPDX-License-Identifier: Apache-2.0
// The conversation with the agent in a script of the user (docs/trainer-protocol.md, "Trainers that do not own their loop").
//
// Unlike a trainer, the script is never ended by us. It answers at the end of a step, which may take as long
// as an evaluation, so nothing here has a time limit. The end of the conversation is ErrorKind::cancelled:
// there is nothing left to tune, and no candidate is to blame.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/descriptor.hpp"
#include "base/frame.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_client.hpp"

namespace autotuned::daemon {

// How the conversation with the agent ended.
struct AgentEnd {
  enum class Kind {
    script_ended,  // reported by the agent, or by the process that started the script
    detached,      // the agent has taken its hooks out; the script trains on
    closed,        // the socket is closed: the process was killed, or has closed it itself
  };
  Kind kind = Kind::closed;
  std::string text;        // for people, one clause; may be empty, where only the kind is known
  bool has_steps = false;  // a step of a training was recognised
  std::int64_t steps = 0;  // since the start of the script, where the agent told
};

// What to do if an answer takes longer than `time`: `on_end` is called once, and the wait goes on.
struct Patience {
  std::chrono::nanoseconds time{0};
  std::function<void()> on_end;  // empty: nothing
};

// One thread.
class AgentClient {
 public:
  // `cancel` must outlive the client: it is requested once the script has ended.
  AgentClient(Descriptor socket, CancelSource& cancel)
      : channel_(std::move(socket)), cancel_(&cancel) {}

  // Waits for the hello, which comes once the script has imported PyTorch. ErrorKind::unsupported: another protocol.
  Result<Json> receive_hello();
  // Sends {"request": name, ...fields} and waits for the answer. Errors: those that the agent tells, and `cancelled`.
  Result<Json> request(const std::string& name, Json fields, Patience patience = {});
  // Waits for the end of the script or of the conversation. After a `finish` the agent closes the socket.
  const AgentEnd& wait_for_end();

  [[nodiscard]] const std::optional<AgentEnd>& end() const { return end_; }

 private:
  Result<Json> receive(Patience patience = {});
  tl::unexpected<Error> end_with(AgentEnd end);

  FrameChannel channel_;
  CancelSource* cancel_;
  std::int64_t next_id_ = 1;
  std::optional<AgentEnd> end_;
};

}  // namespace autotuned::daemon
