// SPDX-License-Identifier: Apache-2.0
#include "trainer/step_clock.hpp"

#include <gtest/gtest.h>

namespace autotuned::trainer {
namespace {

using Next = RingRule::Next;

TEST(RingRule, EndsWhenTheRingIsAsFullAsAtTheStart) {
  RingRule rule(3);
  EXPECT_EQ(rule.after(100, 100, 2), Next::go_on);
  EXPECT_EQ(rule.after(150, 100, 3), Next::end);
  EXPECT_EQ(RingRule(3).after(100, 100, 4), Next::end);
}

TEST(RingRule, ARingThatDoesNotFillAgainStartsTheBlockOver) {
  RingRule rule(8);
  EXPECT_EQ(rule.after(199, 100, 0), Next::go_on);
  EXPECT_EQ(rule.after(200, 100, 0), Next::start_over);
  EXPECT_EQ(rule.after(100, 100, 0), Next::end);
}

TEST(RingRule, StartsOverAtMostOncePerBatch) {
  RingRule rule(4);
  for (const int fullness : {3, 2, 1, 0}) {
    EXPECT_EQ(rule.after(200, 100, fullness), Next::start_over);
  }
  EXPECT_EQ(rule.after(200, 100, 0), Next::end);
}

TEST(RingRule, BlocksWithoutAMinimumEndAtOnce) {
  EXPECT_EQ(RingRule(5).after(0, 0, 0), Next::end);
}

TEST(CancelPoll, AsksSeldomAndAnswers) {
  int asked = 0;
  const std::function<bool()> check = [&asked] {
    ++asked;
    return true;
  };
  CancelPoll poll(check);
  EXPECT_TRUE(poll(0));
  EXPECT_FALSE(poll(CancelPoll::kPeriodNs - 1));
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(poll(CancelPoll::kPeriodNs));
}

TEST(CancelPoll, NothingToAskIsNoCancel) {
  const std::function<bool()> none;
  CancelPoll poll(none);
  EXPECT_FALSE(poll(0));
}

}  // namespace
}  // namespace autotuned::trainer
