// SPDX-License-Identifier: Apache-2.0
// One browser's connection: requests come in, answers or the events of a run go out. What it can make the daemon hold is
// bounded, and nobody waits for it. One thread.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "daemon/queue/events.hpp"
#include "daemon/web/web_limits.hpp"
#include "daemon/web/web_message.hpp"

namespace autotuned::daemon {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // Called for each request, which must be answered with answer() or follow(), at once or later.
  using OnRequest = std::function<void(HttpConnection&, const WebRequest&)>;
  using OnClose = std::function<void(HttpConnection&)>;

  HttpConnection(Socket socket, const HttpLimits& limits, OnRequest on_request, OnClose on_close);

  void start() { read(); }
  void answer(WebAnswer answer);
  // The connection ends with the answer: a refused client has to connect again.
  void refuse(WebAnswer answer);
  // Marks the sender as one that has shown the cookie. Until then a connection has less time, and may be
  // closed in favour of another.
  void admit() { is_admitted_ = true; }
  [[nodiscard]] bool is_admitted() const { return is_admitted_; }
  // Sends the events of `job` from `reader` on as server-sent events, the first `skip` left out; an event's id is its number
  // from 1. The connection ends with the run.
  void follow(std::int64_t job, EventReader reader, std::int64_t skip);
  // To be called when the followed log has grown; with `end` when it is complete.
  void advance(const std::optional<Json>& end);
  void close();

  [[nodiscard]] std::optional<std::int64_t> followed_job() const { return followed_; }

 private:
  void read();
  void take(const boost::system::error_code& error);
  void watch_for_the_end();
  void beat();
  void fill_from_log();
  void write();

  boost::beast::tcp_stream stream_;
  HttpLimits limits_;
  OnRequest on_request_;
  OnClose on_close_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  bool is_kept_ = false;  // the connection, after the answer
  bool is_admitted_ = false;
  bool is_closed_ = false;

  std::optional<std::int64_t> followed_;
  std::optional<EventReader> reader_;
  std::int64_t sent_events_ = 0;
  std::int64_t skip_ = 0;
  std::optional<Json> end_;
  std::string outbox_;
  std::string in_flight_;
  std::array<char, 64> ignored_{};
  boost::asio::steady_timer beat_timer_;
};

}  // namespace autotuned::daemon
