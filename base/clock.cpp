// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include <time.h>

namespace autotuned {
namespace {

std::int64_t read_clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::chrono::nanoseconds SystemClock::now() const {
  return std::chrono::nanoseconds(read_clock_ns(CLOCK_MONOTONIC));
}

std::int64_t SystemClock::unix_time_ns() const {
  return read_clock_ns(CLOCK_REALTIME);
}

}  // namespace autotuned
