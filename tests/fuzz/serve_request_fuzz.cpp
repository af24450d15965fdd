// SPDX-License-Identifier: Apache-2.0
// What a client says to the daemon: bytes, cut into frames, read as requests. The first byte says in which
// pieces they come.
#include <algorithm>
#include <variant>

#include "base/error_json.hpp"
#include "daemon/queue/protocol.hpp"
#include "tests/fuzz/target.hpp"

namespace {

using namespace autotuned;

void check_request(const daemon::DaemonRequest& request) {
  const auto* const submit = std::get_if<daemon::SubmitRequest>(&request);
  if (submit == nullptr) return;
  // The daemon stores it and reads it again.
  const Json written = submit->submission.to_json();
  const auto again = daemon::Submission::from_json(written);
  FUZZ_CHECK(again && again->to_json() == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  daemon::FrameDecoder decoder;
  const std::string_view bytes = fuzz::text_of(data, size);
  const std::size_t piece = 1 + std::size_t{data[0]} * 8;
  for (std::size_t at = 1; at < size; at += piece) {
    decoder.feed(bytes.substr(at, piece));
    for (;;) {
      const auto frame = decoder.next();
      if (!frame) {
        FUZZ_CHECK(frame.error().kind == ErrorKind::invalid && !frame.error().what.empty());
        return 0;
      }
      if (frame->is_null()) break;
      FUZZ_CHECK(frame->is_object());
      if (const auto request = daemon::read_request(*frame)) {
        check_request(*request);
      } else {
        const Json answer = daemon::error_answer(request.error());
        FUZZ_CHECK(error_from_json(answer.at("error")).what == request.error().what);
      }
    }
  }
  return 0;
}
