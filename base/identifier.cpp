// SPDX-License-Identifier: Apache-2.0
#include "base/identifier.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <cstddef>
#include <cstdlib>
#include <ctime>

namespace autotuned {

RunId make_run_id(std::int64_t unix_time_ns) {
  std::uint32_t random = 0;
  // Cannot fail for so few bytes once the system has booted.
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) std::abort();
  const auto seconds = static_cast<std::time_t>(unix_time_ns / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return RunId{fmt::format("r-{:%Y%m%d}-{:06x}", utc, random & 0xffffffU)};
}

bool is_run_id(std::string_view text) {
  // d: a decimal digit, x: a hexadecimal one.
  constexpr std::string_view kForm = "r-dddddddd-xxxxxx";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_digit = c >= '0' && c <= '9';
    const bool fits = kForm[i] == 'd'   ? is_digit
                      : kForm[i] == 'x' ? is_digit || (c >= 'a' && c <= 'f')
                                        : c == kForm[i];
    if (!fits) return false;
  }
  return true;
}

}  // namespace autotuned
