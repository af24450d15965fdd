// SPDX-License-Identifier: Apache-2.0
// A training that goes on with batches of another size than those of its checkpoint, as after it ran out of memory.
#include <gmock/gmock.h>

#include <filesystem>
#include <vector>

#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using recipes::TrainLength;

constexpr TrainLength kTwoEpochs{.epochs = 2, .steps = {}, .batch_size = 32, .drop_last = true};

TEST(PlaceWith, KeepsTheSampleAndCountsInStepsOfItsOwn) {
  const TrainingPosition place =
      place_with(100, 256, kTwoEpochs, 1000, {.epoch = 1, .sample = 512, .steps = 5});
  EXPECT_EQ(place.epoch, 1);
  EXPECT_EQ(place.sample, 512);
  EXPECT_EQ(place.steps, 16) << "four of ten are left in the second epoch";
  EXPECT_EQ(place.samples, 1600);

  TrainLength whole = kTwoEpochs;
  whole.drop_last = false;
  const TrainingPosition other = place_with(100, 256, whole, 1000, {.epoch = 1, .sample = 512});
  EXPECT_EQ(other.steps, 15) << "and with the short one five";
  EXPECT_EQ(other.samples, 1512);

  const TrainingPosition first = place_with(100, 256, kTwoEpochs, 1000, {});
  EXPECT_EQ(first.sample, 0);
  EXPECT_EQ(first.steps, 0);
  EXPECT_EQ(first.samples, 0);
}

TEST(PlaceWith, EndsAnEpochOfWhichTheOtherSizeDropsTheRest) {
  const TrainingPosition place =
      place_with(100, 256, kTwoEpochs, 1000, {.epoch = 0, .sample = 768});
  EXPECT_EQ(place.epoch, 1);
  EXPECT_EQ(place.sample, 0);
  EXPECT_EQ(place.steps, 10);
  // The same where the own size has no whole batch left.
  const TrainingPosition larger =
      place_with(256, 100, kTwoEpochs, 1000, {.epoch = 0, .sample = 900});
  EXPECT_EQ(larger.epoch, 1);
  EXPECT_EQ(larger.sample, 0);
  EXPECT_EQ(larger.steps, 3);
}

TEST(PlaceWith, IsNotBeyondTheEnd) {
  const TrainLength steps{.epochs = {}, .steps = 5, .batch_size = 32, .drop_last = true};
  EXPECT_EQ(place_with(100, 512, steps, 1000, {.epoch = 0, .sample = 512}).steps, 2);
}

struct OtherBatchTraining {
  TrainingSummary summary;
  std::vector<std::int64_t> evaluated_epochs;
};

OtherBatchTraining train_with(std::int64_t batch_size, const TrainRequest& request,
                              const CancelCheck& is_cancelled = never,
                              const ProgressSink& told = {}) {
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe, with(starting(recipe), "batch_size", batch_size));
  OtherBatchTraining trained;
  const ProgressSink sink = [&](const Json& frame) {
    if (const Json& one = member(frame, "evaluation"); !one.is_null()) {
      trained.evaluated_epochs.push_back(one["epoch"].get<std::int64_t>());
    }
    if (told) told(frame);
  };
  trained.summary = value_of(train(*job, request, sink, is_cancelled));
  return trained;
}

TEST(OtherBatchSize, GoesOnFromItsCheckpoint) {
  const Folder folder;
  const TrainRequest request{
      .checkpoint_path = folder / "c", .resume = true, .takes_other_batch_size = true};
  // Each is cut short after one step of 40 samples.
  for (int i = 1; i <= 2; ++i)
    EXPECT_EQ(train_with(40, request, [] { return true; }).summary.steps, i);
  const OtherBatchTraining rest = train_with(20, request);
  EXPECT_EQ(rest.summary.resumed_from_step, 4);
  EXPECT_EQ(rest.summary.steps, 20);
  EXPECT_EQ(rest.summary.samples, 400);
  EXPECT_EQ(rest.summary.epochs, 2);
  EXPECT_TRUE(rest.summary.test);
  EXPECT_THAT(rest.evaluated_epochs, testing::ElementsAre(1, 2));
}

TEST(OtherBatchSize, DoesNotEvaluateAnEpochAgain) {
  const Folder folder;
  const auto keep = [&](const Json& frame) {
    const Json& written = member(frame, "checkpoint");
    if (written.is_null() || written["step"] != 5) return;  // the end of the first epoch
    std::filesystem::copy_file(folder / "c", folder / "five");
  };
  (void)train_with(40, {.checkpoint_path = folder / "c", .checkpoint_every_ns = 0}, never, keep);
  const OtherBatchTraining rest = train_with(
      20, {.checkpoint_path = folder / "five", .resume = true, .takes_other_batch_size = true});
  EXPECT_EQ(rest.summary.resumed_from_step, 10);
  EXPECT_EQ(rest.summary.steps, 20);
  EXPECT_THAT(rest.evaluated_epochs, testing::ElementsAre(2));
}

// After 20 samples of the second epoch an epoch still has four steps of 45: counted in these it has not begun.
TEST(OtherBatchSize, DoesNotEvaluateWithinAnEpoch) {
  const Folder folder;
  const TrainRequest request{
      .checkpoint_path = folder / "c", .resume = true, .takes_other_batch_size = true};
  bool is_second = false;
  const auto look = [&](const Json& frame) {
    if (!member(frame, "evaluation").is_null()) is_second = true;
  };
  const OtherBatchTraining first = train_with(
      20, request, [&] { return is_second; }, look);
  ASSERT_TRUE(first.summary.was_cancelled);
  EXPECT_EQ(first.summary.steps, 11);
  EXPECT_THAT(first.evaluated_epochs, testing::ElementsAre(1));
  const OtherBatchTraining rest = train_with(45, request);
  EXPECT_THAT(rest.evaluated_epochs, testing::ElementsAre(2));
}

// A run that goes on without a plugin drops the knob that the recipe starts with.
TEST(OtherStart, OfTheRecipeDoesNotMakeItAnotherTraining) {
  const Folder folder;
  const TrainRequest request{.checkpoint_path = folder / "c", .resume = true};
  recipes::Recipe recipe = small_recipe();
  recipe.start.set("optimizer.set_to_none", false);
  const auto first = load(recipe);
  const auto stopped = value_of(train(
      *first, request, [](const Json&) {}, [] { return true; }));
  ASSERT_TRUE(stopped.was_cancelled);
  const auto second = load(small_recipe());
  const auto trained = value_of(train(
      *second, request, [](const Json&) {}, never));
  EXPECT_GT(trained.resumed_from_step, 0);
}

}  // namespace
}  // namespace autotuned::trainer
