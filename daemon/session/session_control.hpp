// SPDX-License-Identifier: Apache-2.0
// The session's end of the socket to its supervisor: events go out, a cancel comes in.
#pragma once

#include <chrono>

#include "base/frame.hpp"
#include "daemon/trainers/trainer_client.hpp"

namespace autotuned::daemon {

// One thread. When the supervisor is gone this counts as a cancel: there is nobody left to work for.
class SessionControl final : public CancelSource {
 public:
  explicit SessionControl(Descriptor socket) : channel_(std::move(socket)) {}

  [[nodiscard]] int descriptor() const override { return channel_.descriptor(); }
  bool is_requested() override;

  // The request that asked to stop; an empty object if the supervisor is gone.
  [[nodiscard]] const Json& cancel() const { return cancel_; }
  // Waits until somebody asks to stop.
  void wait_for_cancel();
  // Waits for that no longer than `limit`. Returns whether somebody has asked.
  bool wait_for_cancel(std::chrono::nanoseconds limit);

  // Waits for the first frame, the SessionRequest as JSON.
  Result<Json> receive_request();
  void report(const Json& event);

 private:
  FrameChannel channel_;
  bool is_requested_ = false;
  Json cancel_ = Json::object();
};

}  // namespace autotuned::daemon
