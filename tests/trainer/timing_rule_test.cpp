// SPDX-License-Identifier: Apache-2.0
#include "trainer/timing_rule.hpp"

#include <gtest/gtest.h>

namespace autotuned::trainer {
namespace {

TEST(TimingRule, NothingIsTimedOnceAGpuWasTraced) {
  for (const char* request : {"run", "profile"}) {
    EXPECT_TRUE(check_may_be_timed(request, false)) << request;
    const auto refused = check_may_be_timed(request, true);
    ASSERT_FALSE(refused) << request;
    EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
    EXPECT_FALSE(refused.error().remedy.empty());
  }
}

TEST(TimingRule, EverythingElseGoesOn) {
  for (const char* request : {"trace", "steps", "prepare", "train", "digest", "stop"})
    EXPECT_TRUE(check_may_be_timed(request, true)) << request;
}

}  // namespace
}  // namespace autotuned::trainer
