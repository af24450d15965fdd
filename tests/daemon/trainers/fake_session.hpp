// SPDX-License-Identifier: Apache-2.0
// A cancel that a test asks for.
#pragma once

#include "base/descriptor.hpp"
#include "daemon/trainers/trainer_client.hpp"

namespace autotuned::daemon {

class CancelSwitch final : public CancelSource {
 public:
  [[nodiscard]] int descriptor() const override { return sockets_.ours.get(); }
  bool is_requested() override { return !sockets_.theirs.is_open(); }
  // Makes the descriptor readable.
  void request() { sockets_.theirs.reset(); }

 private:
  SocketPair sockets_ = std::move(*socket_pair());
};

}  // namespace autotuned::daemon
