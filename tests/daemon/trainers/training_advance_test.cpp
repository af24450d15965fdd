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
  EXPECT_TRUE(advance.update(step(1)));
  EXPECT_TRUE(advance.update(step(2)));
  EXPECT_TRUE(advance.update({{"checkpoint", {{"step", 2}, {"bytes", 1}}}}));
  EXPECT_TRUE(advance.update({{"evaluation", {{"epoch", 1}, {"accuracy", 0.5}}}}));
  EXPECT_TRUE(advance.update(step(100)));
  EXPECT_TRUE(advance.update({{"checkpoint", {{"step", 100}}}}));
  EXPECT_TRUE(advance.update({{"evaluation", {{"epoch", 2}}}}));
}

TEST(TrainingAdvance, WhatIsRepeatedDoesNot) {
  TrainingAdvance advance;
  const Json checkpoint = {{"checkpoint", {{"step", 5}}}};
  const Json evaluation = {{"evaluation", {{"epoch", 1}}}};
  EXPECT_TRUE(advance.update(step(5)));
  EXPECT_TRUE(advance.update(checkpoint));
  EXPECT_TRUE(advance.update(evaluation));
  for (const Json& again : {step(5), step(4), checkpoint, evaluation})
    EXPECT_FALSE(advance.update(again)) << again.dump();
}

TEST(TrainingAdvance, NorDoesWhatHasNoEnd) {
  TrainingAdvance advance;
  EXPECT_TRUE(advance.update(step(100)));
  EXPECT_FALSE(advance.update(step(101)));
  EXPECT_FALSE(advance.update(step(102, 1000))) << "the end was announced before";
  EXPECT_FALSE(advance.update({{"checkpoint", {{"step", 101}}}}));
  EXPECT_FALSE(advance.update({{"damaged", {{"file", "1.jpg"}}}}));
  for (const Json& odd : {Json(), Json(7), Json({{"step", "7"}}), Json({{"evaluation", 1}})})
    EXPECT_FALSE(advance.update(odd)) << odd.dump();
}

}  // namespace
}  // namespace autotuned::daemon
