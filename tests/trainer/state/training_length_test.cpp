// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/training_length.hpp"

#include <gtest/gtest.h>

namespace autotuned::trainer {
namespace {

using recipes::TrainLength;

TEST(TrainingLength, CountsEpochsInWholeBatches) {
  const TrainLength length{.epochs = 2, .steps = {}, .batch_size = 32, .drop_last = true};
  const TrainingLength plan = training_length(length, 32, 1000);
  EXPECT_EQ(plan.steps_per_epoch, 31);
  EXPECT_EQ(plan.steps, 62);
  EXPECT_EQ(plan.epochs, 2);
  EXPECT_EQ(plan.samples, 62 * 32);
}

TEST(TrainingLength, KeepsTheRestWithoutDropLast) {
  const TrainLength length{.epochs = 2, .steps = {}, .batch_size = 32, .drop_last = false};
  const TrainingLength plan = training_length(length, 300, 1000);
  EXPECT_EQ(plan.steps_per_epoch, 4);
  EXPECT_EQ(plan.steps, 8);
  EXPECT_EQ(plan.samples, 2000);
}

TEST(TrainingLength, StepsMeanSamplesOfTheRecipesBatch) {
  const TrainLength length{.epochs = {}, .steps = 100, .batch_size = 32, .drop_last = true};
  EXPECT_EQ(training_length(length, 32, 1000).steps, 100);
  EXPECT_EQ(training_length(length, 64, 1000).steps, 50);
  EXPECT_EQ(training_length(length, 300, 1000).steps, 11);  // 3200 samples, rounded up
  EXPECT_EQ(training_length(length, 300, 1000).epochs, 4);
}

TEST(TrainingLength, AnIncompleteBatchIsABatch) {
  EXPECT_EQ(batches_of(0, 300), 0);
  EXPECT_EQ(batches_of(1, 300), 1);
  EXPECT_EQ(batches_of(900, 300), 3);
  EXPECT_EQ(batches_of(901, 300), 4);
  EXPECT_EQ(batches_of(901, 1), 901);
}

}  // namespace
}  // namespace autotuned::trainer
