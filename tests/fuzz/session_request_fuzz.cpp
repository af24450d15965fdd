// SPDX-License-Identifier: Apache-2.0
// What a supervisor tells a session process.
#include "daemon/common/session_request.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  const auto json = parse_json(fuzz::text_of(data, size), "request");
  if (!json) return 0;
  const auto request = daemon::SessionRequest::from_json(*json);
  if (!request) {
    FUZZ_CHECK(!request.error().what.empty());
    return 0;
  }
  const Json written = request->to_json();
  const auto again = daemon::SessionRequest::from_json(written);
  FUZZ_CHECK(again && again->to_json() == written);
  return 0;
}
