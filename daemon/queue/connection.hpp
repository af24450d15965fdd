// SPDX-License-Identifier: Apache-2.0
// One client's connection to the daemon: requests come in, answers and the events of a watched job go out. The memory
// that it can make the daemon use is bounded, and nobody waits for it. One thread.
#pragma once

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/queue/events.hpp"
#include "daemon/queue/limits.hpp"
#include "daemon/queue/protocol.hpp"

namespace autotuned::daemon {

// The bytes of incomplete requests over all connections: their limit and present number.
struct ReceivedBytes {
  std::size_t most = 0;
  std::size_t now = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  // Called for each frame. An error means that the frame is no request: it has been answered, and the connection ends.
  using OnRequest = std::function<void(Connection&, const Result<Json>&)>;
  using OnClose = std::function<void(Connection&, const std::string& reason)>;

  // `received` outlives it.
  Connection(Socket socket, ConnectionLimits limits, ReceivedBytes& received, OnRequest on_request,
             OnClose on_close);

  void start();
  void answer(const Json& frame);
  // Sends the answer and closes.
  void refuse(const Error& error);
  // Sends the events of `job` from `reader` on, the first `skip` left out.
  void watch(std::int64_t job, EventReader reader, std::int64_t skip);
  // To be called when the watched log has grown; with `end` when it is complete.
  void advance(const std::optional<Json>& end = std::nullopt);
  void close(const std::string& reason);

  [[nodiscard]] std::optional<std::int64_t> watched_job() const { return watched_; }

 private:
  void read();
  void take_requests();
  void count_received();
  void write();
  void fill_from_log();
  void expect_request();

  Socket socket_;
  ConnectionLimits limits_;
  OnRequest on_request_;
  OnClose on_close_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;
  std::array<char, 16384> chunk_{};
  FrameDecoder decoder_;
  ReceivedBytes* received_;
  std::size_t counted_ = 0;  // our share of received_
  std::string outbox_;       // to be sent next
  std::string in_flight_;    // being sent
  bool is_reading_ = false;
  bool is_closing_ = false;  // when everything is sent
  bool is_closed_ = false;
  std::optional<std::int64_t> watched_;
  std::optional<EventReader> reader_;
  std::int64_t skip_ = 0;
  std::optional<Json> end_;  // of the watched job
};

}  // namespace autotuned::daemon
