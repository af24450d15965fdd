// SPDX-License-Identifier: Apache-2.0
// The daemon's log on standard error: a line for each event with time, level, name and fields as name=value.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace autotuned::daemon {

enum class LogLevel { info, warning, error };

using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;

// "job_ended job=7 state=failed error=\"no such file\"": values with spaces or control characters are
// quoted, so that no client can forge a line.
[[nodiscard]] std::string log_text(std::string_view event, const LogFields& fields);

void log_line(LogLevel level, std::string_view event, const LogFields& fields = {});

}  // namespace autotuned::daemon
