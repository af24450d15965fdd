// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/connection.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/frame.hpp"

namespace autotuned::daemon {

namespace asio = boost::asio;
using boost::system::error_code;

Connection::Connection(Socket socket, ConnectionLimits limits, ReceivedBytes& received,
                       OnRequest on_request, OnClose on_close)
    : socket_(std::move(socket)),
      limits_(limits),
      on_request_(std::move(on_request)),
      on_close_(std::move(on_close)),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      received_(&received) {}

void Connection::start() {
  expect_request();
  read();
}

// A watcher may be silent; anybody else is here to ask something. Bytes that trickle in buy no time.
void Connection::expect_request() {
  read_timer_.expires_after(limits_.patience);
  read_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->read_timer_.expiry() > asio::steady_timer::clock_type::now()) return;
    self->close("silent");
  });
}

void Connection::read() {
  if (is_reading_ || is_closing_ || is_closed_) return;
  is_reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const error_code& error, std::size_t count) {
                            self->is_reading_ = false;
                            if (self->is_closed_) return;
                            if (error) return self->close("gone");
                            self->decoder_.feed({self->chunk_.data(), count});
                            self->take_requests();
                            self->count_received();
                          });
}

void Connection::count_received() {
  received_->now += decoder_.held_bytes() - counted_;
  counted_ = decoder_.held_bytes();
  if (received_->now <= received_->most || is_closing_ || is_closed_) return;
  refuse({ErrorKind::busy, "clients have sent more than the daemon holds for all of them",
          "the daemon", "try again in a moment"});
  decoder_ = {};
  count_received();
}

void Connection::take_requests() {
  bool is_new = false;  // the wait for the next request begins
  while (!is_closing_ && !is_closed_ && outbox_.size() < limits_.unsent_bytes) {
    const auto frame = decoder_.next();
    if (frame && frame->is_null()) {
      if (watched_ && !decoder_.is_partial()) {
        read_timer_.cancel();
      } else if (is_new || watched_) {
        expect_request();
      }
      return read();
    }
    is_new = true;
    on_request_(*this, frame);
    if (!frame) refuse(frame.error());
  }
}

void Connection::answer(const Json& frame) {
  if (is_closed_) return;
  outbox_ += encode_frame(to_line(frame));
  write();
}

void Connection::refuse(const Error& error) {
  answer(error_answer(error));
  is_closing_ = true;
}

void Connection::watch(std::int64_t job, EventReader reader, std::int64_t skip) {
  watched_ = job;
  reader_.emplace(std::move(reader));
  skip_ = skip;
  end_.reset();
}

void Connection::advance(const std::optional<Json>& end) {
  if (end) end_ = end;
  write();
}

// One piece of the log at a time: the next is read when this one is on its way.
void Connection::fill_from_log() {
  while (reader_ && outbox_.empty()) {
    const auto lines = reader_->read();
    if (lines.empty()) {
      if (!end_) return;
      outbox_ += encode_frame(to_line({{"ended", *end_}}));
      reader_.reset();
      watched_.reset();
      return expect_request();
    }
    for (const std::string& line : lines) {
      if (skip_ > 0) {
        --skip_;
      } else {
        outbox_ += encode_frame("{\"event\":" + line + "}");
      }
    }
  }
}

void Connection::write() {
  if (!in_flight_.empty() || is_closed_) return;
  fill_from_log();
  if (outbox_.empty()) {
    if (is_closing_) close("refused");
    return;
  }
  in_flight_ = std::exchange(outbox_, {});
  write_timer_.expires_after(limits_.patience);
  write_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->write_timer_.expiry() > asio::steady_timer::clock_type::now()) return;
    self->close("does not read");
  });
  asio::async_write(socket_, asio::buffer(in_flight_),
                    [self = shared_from_this()](const error_code& error, std::size_t) {
                      if (self->is_closed_) return;
                      if (error) return self->close("gone");
                      self->in_flight_ = {};
                      self->write_timer_.cancel();
                      self->write();
                      // Requests that waited until the outbox had space.
                      if (!self->is_reading_) {
                        self->take_requests();
                        self->count_received();
                      }
                    });
}

void Connection::close(const std::string& reason) {
  if (std::exchange(is_closed_, true)) return;
  const auto self = shared_from_this();  // the owner lets go of it
  read_timer_.cancel();
  write_timer_.cancel();
  decoder_ = {};
  count_received();
  error_code ignored;
  socket_.close(ignored);
  on_close_(*this, reason);
}

}  // namespace autotuned::daemon
