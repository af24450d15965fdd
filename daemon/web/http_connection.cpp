// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/http_connection.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

namespace autotuned::daemon {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Response = http::response<http::string_body>;

namespace {

// Room for the header and body of one request, and the beginning of the next.
constexpr std::size_t kBufferSlack = 4096;

beast::string_view view_of(const std::string& text) {
  return {text.data(), text.size()};
}

std::string text_of(beast::string_view text) {
  return {text.data(), text.size()};
}

// A header that stands there once.
std::string header_of(const http::request<http::string_body>& request, http::field name) {
  return request.count(name) == 1 ? text_of(request[name]) : std::string();
}

// No browser sends this header twice. If it is there several times, the value becomes "several", which the gate
// refuses.
std::string fetch_site_of(const http::request<http::string_body>& request) {
  constexpr const char* kFetchSite = "Sec-Fetch-Site";
  return request.count(kFetchSite) > 1 ? "several" : text_of(request[kFetchSite]);
}

WebRequest web_request(const http::request<http::string_body>& request) {
  constexpr const char* kLastEvent = "Last-Event-ID";
  return {.method = text_of(request.method_string()),
          .target = text_of(request.target()),
          .host = header_of(request, http::field::host),
          .origin = header_of(request, http::field::origin),
          .fetch_site = fetch_site_of(request),
          .cookie = header_of(request, http::field::cookie),
          .last_event_id = text_of(request[kLastEvent])};
}

// The status for a request that cannot be read; 0: the client has gone.
unsigned status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  const error_code any_of_http = http::error::bad_method;
  return error.category() == any_of_http.category() ? 400 : 0;
}

}  // namespace

HttpConnection::HttpConnection(Socket socket, const HttpLimits& limits, OnRequest on_request,
                               OnClose on_close)
    : stream_(std::move(socket)),
      limits_(limits),
      on_request_(std::move(on_request)),
      on_close_(std::move(on_close)),
      buffer_(static_cast<std::size_t>(limits.header_bytes) +
              static_cast<std::size_t>(limits.body_bytes) + kBufferSlack),
      beat_timer_(stream_.get_executor()) {}

void HttpConnection::read() {
  if (is_closed_) return;
  parser_.emplace();
  parser_->header_limit(limits_.header_bytes);
  parser_->body_limit(limits_.body_bytes);
  // The limit is for the whole request, so that a slow client cannot extend it.
  stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(
      is_admitted_ ? limits_.patience : limits_.stranger_patience));
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](const error_code& error, std::size_t) { self->take(error); });
}

void HttpConnection::take(const error_code& error) {
  if (is_closed_) return;
  if (error) {
    const unsigned status = status_of(error);
    if (status == 0) return close();
    return refuse({.status = status, .body = "The request cannot be understood.\n", .headers = {}});
  }
  is_kept_ = parser_->get().keep_alive();
  on_request_(*this, web_request(parser_->get()));
}

void HttpConnection::answer(WebAnswer answer) {
  if (is_closed_) return;
  auto response = std::make_shared<Response>();
  response->version(11);
  response->result(answer.status);
  for (const auto& headers : {common_headers(), answer.headers}) {
    for (const auto& [name, value] : headers)
      response->set(view_of(name), view_of(value));
  }
  response->set(http::field::content_type, view_of(answer.type));
  response->body() = std::move(answer.body);
  response->keep_alive(is_kept_);
  response->prepare_payload();
  stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(limits_.patience));
  http::async_write(stream_, *response,
                    [self = shared_from_this(), response](const error_code& error, std::size_t) {
                      if (error || !self->is_kept_) return self->close();
                      self->read();
                    });
}

void HttpConnection::refuse(WebAnswer answer) {
  is_kept_ = false;
  this->answer(std::move(answer));
}

void HttpConnection::follow(std::int64_t job, EventReader reader, std::int64_t skip) {
  if (is_closed_) return;
  is_kept_ = false;
  followed_ = job;
  reader_.emplace(std::move(reader));
  skip_ = skip;
  outbox_ = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n";
  for (const auto& [name, value] : common_headers())
    outbox_ += name + ": " + value + "\r\n";
  outbox_ += "\r\nretry: 2000\n\n";
  stream_.expires_never();
  watch_for_the_end();
  beat();
  write();
}

// A page that follows has nothing more to say; what arrives is its end.
void HttpConnection::watch_for_the_end() {
  stream_.async_read_some(
      asio::buffer(ignored_),
      [self = shared_from_this()](const error_code&, std::size_t) { self->close(); });
}

void HttpConnection::beat() {
  beat_timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(limits_.beat));
  beat_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->is_closed_) return;
    if (self->in_flight_.empty()) {
      self->outbox_ += ":\n\n";
      self->write();
    }
    self->beat();
  });
}

void HttpConnection::advance(const std::optional<Json>& end) {
  if (end) end_ = end;
  write();
}

// One piece of the log at a time: the next is read when this one is on its way.
void HttpConnection::fill_from_log() {
  while (reader_ && outbox_.empty()) {
    const auto lines = reader_->read();
    if (lines.empty()) {
      if (!end_) return;
      outbox_ = "event: ended\ndata: " + to_line(*end_) + "\n\n";
      reader_.reset();
      return;
    }
    for (const std::string& line : lines) {
      if (++sent_events_ <= skip_) continue;
      outbox_ += "id: " + std::to_string(sent_events_) + "\ndata: " + line + "\n\n";
    }
  }
}

void HttpConnection::write() {
  if (is_closed_ || !in_flight_.empty()) return;
  fill_from_log();
  if (outbox_.empty()) {
    if (!reader_) close();  // all is told
    return;
  }
  in_flight_ = std::exchange(outbox_, {});
  stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(limits_.patience));
  asio::async_write(stream_, asio::buffer(in_flight_),
                    [self = shared_from_this()](const error_code& error, std::size_t) {
                      if (self->is_closed_) return;
                      if (error) return self->close();
                      self->in_flight_.clear();
                      self->write();
                    });
}

void HttpConnection::close() {
  if (std::exchange(is_closed_, true)) return;
  const auto self = shared_from_this();  // the owner lets go of it
  beat_timer_.cancel();
  error_code ignored;
  // Bytes that were sent still arrive.
  stream_.socket().shutdown(Socket::shutdown_send, ignored);
  stream_.close();
  on_close_(*this);
}

}  // namespace autotuned::daemon
