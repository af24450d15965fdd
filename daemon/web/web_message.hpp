// SPDX-License-Identifier: Apache-2.0
// Requests and answers of the web page as plain values, so that the code that decides about them needs no socket.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// A request. Missing headers are empty.
struct WebRequest {
  std::string method;  // "GET"
  std::string target;  // "/path?query"
  std::string host;    // empty too where there are several
  std::string origin;
  std::string fetch_site;  // Sec-Fetch-Site; "several" where there are several
  std::string cookie;
  std::string last_event_id;
};

struct WebAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beside those that every answer has
};

// The security headers of every answer: no caching, no guessing of content types, no framing, nothing loaded from
// elsewhere.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& common_headers();

[[nodiscard]] WebAnswer json_answer(const Json& value);
// {"error": {"kind", "what", "where", "remedy"}}, with the status that fits the kind.
[[nodiscard]] WebAnswer error_web_answer(const Error& error);

}  // namespace autotuned::daemon
