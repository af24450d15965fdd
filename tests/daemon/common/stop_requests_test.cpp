// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/stop_requests.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace autotuned::daemon {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::steady_clock::time_point kStart{std::chrono::hours(1)};

// As of `timeout`, which sends its signal to the process and then to the group.
TEST(StopRequests, SignalsWithinASecondAreOne) {
  StopRequests requests;
  EXPECT_TRUE(requests.take(SIGTERM, kStart));
  EXPECT_FALSE(requests.take(SIGTERM, kStart));
  EXPECT_FALSE(requests.take(SIGINT, kStart + milliseconds(300)));
  EXPECT_FALSE(requests.take(SIGTERM, kStart + milliseconds(999)));
}

// Measured from the last request: signals in quick succession do not put it off.
TEST(StopRequests, ALaterSignalIsTheNext) {
  StopRequests requests;
  EXPECT_TRUE(requests.take(SIGINT, kStart));
  EXPECT_FALSE(requests.take(SIGINT, kStart + milliseconds(600)));
  EXPECT_TRUE(requests.take(SIGINT, kStart + milliseconds(1000)));
  EXPECT_FALSE(requests.take(SIGINT, kStart + milliseconds(1600)));
  EXPECT_TRUE(requests.take(SIGTERM, kStart + milliseconds(2000)));
}

TEST(StopRequests, AClosedTerminalIsOnlyTheFirst) {
  StopRequests requests;
  EXPECT_TRUE(requests.take(SIGHUP, kStart));
  EXPECT_FALSE(requests.take(SIGHUP, kStart + milliseconds(5000)));
  EXPECT_TRUE(requests.take(SIGTERM, kStart + milliseconds(6000)));
  EXPECT_FALSE(requests.take(SIGHUP, kStart + milliseconds(9000)));
}

}  // namespace
}  // namespace autotuned::daemon
