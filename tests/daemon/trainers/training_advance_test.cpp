// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/training_advance.hpp"

#include <gtest/gtest.h>

namespace autotuned::daemon {
namespace {

Json step(int number, int total = 100) {
  return {{"step", number}, {"steps_total", total}};
}

TEST(TrainingAdvance, FurtherStepsEvaluationsAndCheckpointsCount) {
  TrainingAdvance advance;
  EXPECT_TRUE(advance.takes_further(step(1)));
  EXPECT_TRUE(advance.takes_further(step(2)));
  EXPECT_TRUE(advance.takes_further({{"checkpoint", {{"step", 2}, {"bytes", 1}}}}));
  EXPECT_TRUE(advance.takes_further({{"evaluation", {{"epoch", 1}, {"accuracy", 0.5}}}}));
  EXPECT_TRUE(advance.takes_further(step(100)));
  EXPECT_TRUE(advance.takes_further({{"checkpoint", {{"step", 100}}}}));
  EXPECT_TRUE(advance.takes_further({{"evaluation", {{"epoch", 2}}}}));
}

TEST(TrainingAdvance, WhatIsRepeatedDoesNot) {
  TrainingAdvance advance;
  const Json checkpoint = {{"checkpoint", {{"step", 5}}}};
  const Json evaluation = {{"evaluation", {{"epoch", 1}}}};
  EXPECT_TRUE(advance.takes_further(step(5)));
  EXPECT_TRUE(advance.takes_further(checkpoint));
  EXPECT_TRUE(advance.takes_further(evaluation));
  for (const Json& again : {step(5), step(4), checkpoint, evaluation})
    EXPECT_FALSE(advance.takes_further(again)) << again.dump();
}

TEST(TrainingAdvance, NorDoesWhatHasNoEnd) {
  TrainingAdvance advance;
  EXPECT_TRUE(advance.takes_further(step(100)));
  EXPECT_FALSE(advance.takes_further(step(101)));
  EXPECT_FALSE(advance.takes_further(step(102, 1000))) << "the end was announced before";
  EXPECT_FALSE(advance.takes_further({{"checkpoint", {{"step", 101}}}}));
  EXPECT_FALSE(advance.takes_further({{"damaged", {{"file", "1.jpg"}}}}));
  for (const Json& odd : {Json(), Json(7), Json({{"step", "7"}}), Json({{"evaluation", 1}})})
    EXPECT_FALSE(advance.takes_further(odd)) << odd.dump();
}

}  // namespace
}  // namespace autotuned::daemon
