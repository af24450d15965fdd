// SPDX-License-Identifier: Apache-2.0
// Frames: the bytes that arrive on a socket. The first byte says in which pieces they come.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "base/frame.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  constexpr std::size_t kMax = 64U << 10U;  // fits into the socket's buffer
  if (size < 2 || size > kMax) return 0;
  auto pair = socket_pair();
  FUZZ_CHECK(pair);
  FrameChannel channel(std::move(pair->ours));
  const std::size_t piece = 1 + std::size_t{data[0]} * 8;
  for (std::size_t at = 1; at < size; at += piece) {
    const std::size_t count = std::min(piece, size - at);
    FUZZ_CHECK(::send(pair->theirs.get(), data + at, count, MSG_NOSIGNAL) ==
               static_cast<ssize_t>(count));
    for (;;) {
      const bool was_buffered = channel.has_buffered_frame();
      const auto frame = channel.receive(std::chrono::nanoseconds{0});
      if (frame) {
        // Whatever is received can be sent on.
        FUZZ_CHECK(parse_json(to_line(*frame), "again").has_value());
        continue;
      }
      if (frame.error().kind != ErrorKind::timeout) {
        FUZZ_CHECK(frame.error().kind == ErrorKind::invalid);
        // Finished for good; nobody reads any more what the other side sends.
        FUZZ_CHECK(channel.receive(std::chrono::nanoseconds{0}).error().kind == ErrorKind::invalid);
        return 0;
      }
      FUZZ_CHECK(!was_buffered);
      break;
    }
  }
  return 0;
}
