// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/step_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace autotuned::trainer {
namespace {

using Next = RingRule::Next;

TEST(StepsUntilLook, ReachTheMinimumOfABlockAtOnce) {
  // A step more than 100 ms need, by 2 % and rounded up.
  EXPECT_EQ(steps_until_look(0, 0, 1, 100'000'000, 5'000'000), 21);
  EXPECT_EQ(steps_until_look(0, 0, 40, 100'000'000, 5'000'000), 40);
  EXPECT_EQ(steps_until_look(21, 98'000'000, 1, 100'000'000, 5'000'000), 1);
  // The time is over, and a rank wants more.
  EXPECT_EQ(steps_until_look(21, 105'000'000, 1, 100'000'000, 5'000'000), 1);
}

TEST(StepsUntilLook, BeginWithOneWhereNothingIsKnown) {
  EXPECT_EQ(steps_until_look(0, 0, 1, 100'000'000, 0), 1);
  EXPECT_EQ(steps_until_look(0, 0, 3, 100'000'000, 0), 1);
}

// So that a cancel is noticed.
TEST(StepsUntilLook, LastASecondAtMost) {
  EXPECT_EQ(steps_until_look(0, 0, 1, 60'000'000'000, 100'000'000), 10);
  EXPECT_EQ(steps_until_look(0, 0, 5, 0, 3'000'000'000), 1);
}

TEST(StepsUntilQuestion, AreAboutFiftyMilliseconds) {
  EXPECT_EQ(steps_until_question(10, 10 * 5'000'000), 10);
  EXPECT_EQ(steps_until_question(10, 10 * 10'000'000), 5) << "steps take longer now";
  EXPECT_EQ(steps_until_question(1, 3'000'000'000), 1);
}

TEST(StepsUntilQuestion, GrowFromOneToTwiceAsManyAtMost) {
  EXPECT_EQ(steps_until_question(1, 1'000), 2);
  EXPECT_EQ(steps_until_question(8, 8'000), 16);
  EXPECT_EQ(steps_until_question(0, 0), 2) << "nothing is known";
}

TEST(RingRule, EndsWhenTheRingIsAsFullAsAtTheStart) {
  RingRule rule(3);
  EXPECT_EQ(rule.after(100, 100, 2), Next::go_on);
  EXPECT_EQ(rule.after(150, 100, 3), Next::end);
  EXPECT_EQ(RingRule(3).after(100, 100, 4), Next::end);
}

TEST(RingRule, IsShortBelowTheRingOfTheStart) {
  const RingRule rule(3);
  EXPECT_TRUE(rule.is_short(2));
  EXPECT_FALSE(rule.is_short(3));
  EXPECT_FALSE(rule.is_short(4));
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

struct Profiled {
  int steps = 0;  // beyond those that are recorded
  bool is_again = false;

  friend bool operator==(const Profiled&, const Profiled&) = default;
};
// `more`: batches that are ready after a step more than before it, less the one that the step takes.
Profiled profiled(int ready_before, int ready_after, int more) {
  RefillRule rule(ready_before);
  Profiled told;
  int ready = ready_after;
  for (;;) {
    const auto next = rule.after(1, 100, ready);
    if (next == RefillRule::Next::keep) return told;
    if (next == RefillRule::Next::record_again) {
      EXPECT_FALSE(std::exchange(told.is_again, true)) << "once";
    } else {
      ++told.steps;
    }
    ready = std::max(0, ready + more);
  }
}

TEST(RefillRule, ReadyBatchesDoNotHideASlowLoader) {
  constexpr int kMax = RefillRule::kMaxSteps;
  EXPECT_EQ(profiled(4, 1, -1), (Profiled{kMax, true})) << "the steps lived off three batches";
  EXPECT_EQ(profiled(4, 3, 0), (Profiled{kMax, true})) << "it never gets ahead again";
}

TEST(RefillRule, ALoaderThatKeepsUpIsProfiledOnce) {
  EXPECT_EQ(profiled(4, 4, 0), (Profiled{0, false}));
  EXPECT_EQ(profiled(0, 0, -1), (Profiled{0, false})) << "nothing was ready";
  EXPECT_EQ(profiled(4, 3, 1), (Profiled{1, false})) << "the batch at work was not there yet";
  EXPECT_EQ(profiled(4, 1, 1), (Profiled{3, false}));
}

TEST(RefillRule, KeepsWhatItHasWhereTimeIsShort) {
  using Again = RefillRule::Next;
  EXPECT_EQ(RefillRule(4).after(100, 100, 0), Again::keep);
  RefillRule late(4);
  for (int i = 0; i < RefillRule::kMaxSteps; ++i)
    EXPECT_EQ(late.after(50, 100, 0), Again::step);
  EXPECT_EQ(late.after(50, 100, 0), Again::keep) << "no second recording fits";
  EXPECT_EQ(RefillRule(4).after(1, INT64_MAX, 0), Again::step);
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
