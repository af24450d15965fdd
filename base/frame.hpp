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

// Returns `body` with its length in front. REQUIRES: `body` is JSON, of at most kMaxFrameBytes.
[[nodiscard]] std::string encode_frame(std::string_view body);
// Returns the length of the body that the header at the front of `received` announces. REQUIRES: `received` has at least
// kFrameHeaderBytes.
[[nodiscard]] std::size_t announced_length(std::string_view received);

// One end of a stream of frames. One thread at a time. After an error the channel is finished: every later call returns the
// same error. Two errors do not finish it: `timeout`, and `invalid` for a value that is too long to be sent.
class FrameChannel {
 public:
  explicit FrameChannel(Descriptor socket);

  // Blocks until everything is handed to the kernel. ErrorKind::crashed when the other side is gone.
  // Never raises SIGPIPE.
  [[nodiscard]] Result<void> send(const Json& value);

  // Returns the next frame. A negative `timeout` waits for ever. After ErrorKind::timeout the call can be repeated: a partly
  // received frame is kept. ErrorKind::crashed: the other side closed the stream. ErrorKind::invalid: the frame is too long or not
  // JSON.
  [[nodiscard]] Result<Json> receive(std::chrono::nanoseconds timeout);

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // Whether receive() would return a frame without reading. poll() on the descriptor does not show such a frame.
  [[nodiscard]] bool has_buffered_frame() const;

 private:
  tl::unexpected<Error> finish(Error error);

  Descriptor socket_;
  std::string received_;
  std::optional<Error> failure_;  // once set, every call answers with it
};

}  // namespace autotuned
