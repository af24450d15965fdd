// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/wait_notice.hpp"

#include <gtest/gtest.h>

namespace autotuned::daemon {
namespace {

using std::chrono::seconds;

TEST(WaitNotice, IsGivenAtOnceAndThenEveryMinute) {
  WaitNotice notice;
  EXPECT_FALSE(notice.waited(seconds(999)));
  EXPECT_EQ(notice.look(seconds(1000)), seconds(0));
  EXPECT_FALSE(notice.look(seconds(1001)));
  EXPECT_FALSE(notice.look(seconds(1059)));
  EXPECT_EQ(notice.look(seconds(1060)), seconds(60));
  EXPECT_FALSE(notice.look(seconds(1061)));
  EXPECT_EQ(notice.look(seconds(1125)), seconds(125));
  EXPECT_EQ(notice.waited(seconds(1130)), seconds(130));
}

}  // namespace
}  // namespace autotuned::daemon
