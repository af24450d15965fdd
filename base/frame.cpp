// SPDX-License-Identifier: Apache-2.0
#include "base/frame.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace autotuned {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10U;
constexpr const char* kWhere = "the connection";

Error closed_error(bool in_frame) {
  return Error{
      ErrorKind::crashed,
      in_frame ? "the other side closed in the middle of a frame" : "the other side closed",
      kWhere,
      {}};
}

}  // namespace

std::string encode_frame(std::string_view body) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + body.size());
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    frame += static_cast<char>((body.size() >> (8 * i)) & 0xffU);
  }
  frame += body;
  return frame;
}

std::size_t announced_length(std::string_view received) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= std::size_t{static_cast<unsigned char>(received[i])} << (8 * i);
  }
  return length;
}

FrameChannel::FrameChannel(Descriptor socket) : socket_(std::move(socket)) {}

tl::unexpected<Error> FrameChannel::finish(Error error) {
  failure_ = std::move(error);
  received_ = {};
  return tl::unexpected(*failure_);
}

Result<void> FrameChannel::send(const Json& value) {
  if (failure_) return tl::unexpected(*failure_);
  const std::string body = to_line(value);
  if (body.size() > kMaxFrameBytes) {
    return fail(ErrorKind::invalid,
                "a frame of " + std::to_string(body.size()) + " bytes is too long to send", kWhere);
  }
  const std::string frame = encode_frame(body);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t count = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // Somebody made the socket non-blocking.
      pollfd waited{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
      (void)::poll(&waited, 1, -1);
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return finish(closed_error(false));
    } else if (errno != EINTR) {
      return finish(system_error(errno, "cannot send", kWhere));
    }
  }
  return {};
}

Result<Json> FrameChannel::receive(std::chrono::nanoseconds timeout) {
  using std::chrono::nanoseconds;
  if (failure_) return tl::unexpected(*failure_);
  const auto start = std::chrono::steady_clock::now();
  while (!has_buffered_frame()) {
    std::array<char, kReadBytes> chunk;
    const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(chunk.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno == ECONNRESET) {
      return finish(closed_error(!received_.empty()));
    } else if (errno == EAGAIN) {
      nanoseconds rest = timeout;
      if (timeout >= nanoseconds::zero()) {
        rest = std::max(nanoseconds::zero(),
                        timeout - nanoseconds(std::chrono::steady_clock::now() - start));
      }
      if (!wait_readable(socket_.get(), rest)) {
        return fail(ErrorKind::timeout, "no answer within the time limit", kWhere);
      }
    } else if (errno != EINTR) {
      return finish(system_error(errno, "cannot receive", kWhere));
    }
  }

  const std::size_t length = announced_length(received_);
  if (length > kMaxFrameBytes) {
    return finish(Error{ErrorKind::invalid,
                        "a frame of " + std::to_string(length) + " bytes is announced, at most " +
                            std::to_string(kMaxFrameBytes) + " are allowed",
                        kWhere,
                        {}});
  }
  Result<Json> value = parse_json(std::string_view(received_).substr(kFrameHeaderBytes, length),
                                  kWhere, kMaxFrameBytes);
  if (!value) return finish(std::move(value.error()));
  received_.erase(0, kFrameHeaderBytes + length);
  return value;
}

bool FrameChannel::has_buffered_frame() const {
  if (received_.size() < kFrameHeaderBytes) return false;
  const std::size_t length = announced_length(received_);
  // A length that is refused counts: receive() can answer at once.
  return length > kMaxFrameBytes || received_.size() - kFrameHeaderBytes >= length;
}

}  // namespace autotuned
