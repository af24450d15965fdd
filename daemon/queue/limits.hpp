// SPDX-License-Identifier: Apache-2.0
// What a daemon bounds, and how long it waits; docs/daemon.md names the values. Tests use smaller ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "daemon/supervisor/supervisor.hpp"

namespace autotuned::daemon {

struct JobLimits {
  SupervisorLimits supervisor;
  // How long until a failed write to disk, or a start that failed for lack of a resource, is tried again.
  std::chrono::nanoseconds save_again = std::chrono::seconds(5);
  std::chrono::nanoseconds start_again = std::chrono::seconds(5);
};

struct ConnectionLimits {
  // How long a request may take to arrive, and a client to read what was sent.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  // Further requests wait while more bytes than this are not sent yet.
  std::size_t unsent_bytes = std::size_t{64} << 10U;
};

struct DaemonLimits {
  // Time for running sessions to stop when the daemon ends: less than the five seconds within which the
  // daemon promises to end.
  std::chrono::nanoseconds stop_grace = std::chrono::milliseconds(3500);
  std::size_t connections = 64;
  // With more resident memory than this the daemon accepts no further runs and watchers.
  std::int64_t resident_bytes = std::int64_t{256} << 20U;
  // Bytes of incomplete requests over all connections: a client that exceeds them is refused.
  std::size_t received_bytes = std::size_t{32} << 20U;
  ConnectionLimits connection;
  JobLimits jobs;
};

}  // namespace autotuned::daemon
