// SPDX-License-Identifier: Apache-2.0
// The page of the daemon, for browsers on this machine: `autotuned serve --web`. docs/web.md tells what it shows,
// docs/security.md who can reach it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "daemon/queue/queue_view.hpp"
#include "daemon/web/web_limits.hpp"

namespace autotuned::daemon {

struct WebOptions {
  std::uint16_t port = 0;         // 0: one that is free
  bool may_control = false;       // cancel runs, too
  std::filesystem::path history;  // empty: the default place
  WebLimits limits;
};

// Makes the queue view that serves the page. It listens on 127.0.0.1 and, if there is IPv6, on ::1. ErrorKind::busy:
// another program has the port.
[[nodiscard]] MakeQueueView web_page(WebOptions options);

}  // namespace autotuned::daemon
