// SPDX-License-Identifier: Apache-2.0
// What the web page bounds, and how long it waits; docs/web.md names the values. Tests use smaller ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace autotuned::daemon {

struct HttpLimits {
  // How long a whole request may take to arrive, and a client to read what was sent.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  // The same limit until a connection has shown the cookie, so that an unknown client that asks nothing loses
  // its place soon.
  std::chrono::nanoseconds stranger_patience = std::chrono::seconds(5);
  // The time between two heartbeats to a page that follows a run.
  std::chrono::nanoseconds beat = std::chrono::seconds(20);
  std::uint32_t header_bytes = 8192;
  std::uint64_t body_bytes = 1024;
};

struct WebLimits {
  HttpLimits http;
  std::size_t connections = 32;
  std::size_t questions = 16;  // that wait for the history
};

}  // namespace autotuned::daemon
