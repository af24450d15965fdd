// SPDX-License-Identifier: Apache-2.0
#include "base/identifier.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/random.h>

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

}  // namespace autotuned
