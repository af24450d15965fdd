// SPDX-License-Identifier: Apache-2.0
// JSON frames on a stream socket: a 4-byte little-endian length, then that many bytes of JSON.
//
// Used by the trainer protocol (docs/trainer-protocol.md) and by the reports of a session.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned {

inline constexpr std::size_t kMaxFrameBytes = 16U << 20U;
inline constexpr std::size_t kFrameHeaderBytes = 4;

// `body` with its length in front. REQUIRES: `body` is JSON, of at most kMaxFrameBytes.
[[nodiscard]] std::string encode_frame(std::string_view body);
// The length that a header announces. REQUIRES: at least kFrameHeaderBytes in `received`.
[[nodiscard]] std::size_t announced_length(std::string_view received);

// One end of a frame stream. Used by one thread at a time. After any error except `timeout` the channel is
// finished: every later call returns the same error. Exception: a value that is too long to be sent is
// refused with ErrorKind::invalid, and the channel goes on.
class FrameChannel {
 public:
  explicit FrameChannel(Descriptor socket);

  // Blocks until everything is handed to the kernel. ErrorKind::crashed when the other side is gone.
  // Never raises SIGPIPE.
  [[nodiscard]] Result<void> send(const Json& value);

  // The next frame. `timeout` with a negative duration waits for ever; ErrorKind::timeout leaves a
  // partly received frame in place, so that the call can be repeated. ErrorKind::crashed: the other
  // side closed. ErrorKind::invalid: too long, or not JSON.
  [[nodiscard]] Result<Json> receive(std::chrono::nanoseconds timeout);

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // True when receive() would answer without reading: a whole frame is already buffered, so that poll()
  // on the descriptor would miss it.
  [[nodiscard]] bool has_buffered_frame() const;

 private:
  tl::unexpected<Error> finish(Error error);

  Descriptor socket_;
  std::string received_;
  std::optional<Error> failure_;  // once set, every call answers with it
};

}  // namespace autotuned
