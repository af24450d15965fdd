// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/web_message.hpp"

namespace autotuned::daemon {

namespace {

unsigned status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return 400;
    case ErrorKind::permission:
      return 403;
    case ErrorKind::not_found:
      return 404;
    case ErrorKind::busy:
    case ErrorKind::timeout:
    case ErrorKind::out_of_memory:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& common_headers() {
  // No Cross-Origin-Opener-Policy: with it browsers refuse the sandbox of trace_page().
  static const std::vector<std::pair<std::string, std::string>> kHeaders = {
      {"Cache-Control", "no-store"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  return kHeaders;
}

WebAnswer json_answer(const Json& value) {
  return {.type = "application/json", .body = to_line(value), .headers = {}};
}

WebAnswer error_web_answer(const Error& error) {
  WebAnswer answer = json_answer({{"error",
                                   {{"kind", to_string(error.kind)},
                                    {"what", error.what},
                                    {"where", error.where},
                                    {"remedy", error.remedy}}}});
  answer.status = status_of(error.kind);
  return answer;
}

}  // namespace autotuned::daemon
