// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "base/json.hpp"
#include "base/printable.hpp"

namespace autotuned::daemon {

namespace {

spdlog::logger& logger() {
  // One thread logs.
  static spdlog::logger kept = [] {
    spdlog::logger made("autotuned", std::make_shared<spdlog::sinks::stderr_sink_st>());
    made.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made.set_error_handler([](const std::string&) {});
    return made;
  }();
  return kept;
}

bool is_plain(std::string_view value) {
  return !value.empty() && std::ranges::all_of(value, [](char character) {
    return character > ' ' && character != '"' && character != '=' && character != '\\' &&
           static_cast<unsigned char>(character) < 0x7f;
  });
}

}  // namespace

std::string log_text(std::string_view event, const LogFields& fields) {
  std::string text(event);
  for (const auto& [name, value] : fields) {
    text +=
        " " + std::string(name) + "=" + (is_plain(value) ? value : printable(to_line(Json(value))));
  }
  return text;
}

void log_line(LogLevel level, std::string_view event, const LogFields& fields) {
  const auto spdlog_level = level == LogLevel::info      ? spdlog::level::info
                            : level == LogLevel::warning ? spdlog::level::warn
                                                         : spdlog::level::err;
  logger().log(spdlog_level, log_text(event, fields));
}

}  // namespace autotuned::daemon
