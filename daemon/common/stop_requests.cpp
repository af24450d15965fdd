// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/stop_requests.hpp"

#include <csignal>

namespace autotuned::daemon {

bool StopRequests::take(int signal, std::chrono::steady_clock::time_point now) {
  if (last_ && (signal == SIGHUP || now - *last_ < kOneStop)) return false;
  last_ = now;
  return true;
}

}  // namespace autotuned::daemon
