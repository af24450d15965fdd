// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/saved_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

recipes::Recipe saving(std::optional<std::int64_t> epochs, std::optional<std::int64_t> steps) {
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation.reset();
  recipe.save_every_epochs = epochs;
  recipe.save_every_steps = steps;
  return recipe;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

TEST(SavedWeights, AreDueByEpochsAndBySteps) {
  const SavedWeights none(saving({}, {}), 20, 10);
  EXPECT_THAT(none.due_after(20), IsEmpty());
  EXPECT_FALSE(none.counts_epochs());
  EXPECT_EQ(none.steps_to_next(7), std::numeric_limits<std::int64_t>::max());
  const SavedWeights both(saving(2, 15), 20, 10);
  EXPECT_TRUE(both.counts_epochs());
  EXPECT_THAT(both.due_after(10), IsEmpty());
  EXPECT_THAT(both.due_after(15), ElementsAre("model_step_15"));
  EXPECT_THAT(both.due_after(20), ElementsAre("model_epoch_2"));
  EXPECT_THAT(both.due_after(60), ElementsAre("model_epoch_6", "model_step_60"));
  EXPECT_EQ(both.steps_to_next(0), 15);
  EXPECT_EQ(both.steps_to_next(14), 1);
  EXPECT_EQ(both.steps_to_next(15), 15);
}

// The recipe counts steps of its own batch size: as many samples lie between two files.
TEST(SavedWeights, KeepTheirDistanceInSamples) {
  EXPECT_EQ(SavedWeights(saving({}, 15), 60, 3).steps_to_next(0), 5);
  EXPECT_EQ(SavedWeights(saving({}, 15), 70, 2).steps_to_next(0), 5);
  EXPECT_EQ(SavedWeights(saving({}, 1), 1000, 1).steps_to_next(0), 1);
}

TEST(SavedWeights, LeaveTheNewestAndWhatIsNotTheirs) {
  const Folder folder;
  std::filesystem::create_directory(folder / "w");
  for (const char* name : {"model_epoch_1.pt", "model_step_15.pt", "model_step_15_ema.pt",
                           "model_epoch_2.pt", "model_step_100000000000000000000.pt",
                           "model_epoch_x.pt", "model_step_30.pt.part", "notes.txt"})
    std::ofstream(folder / ("w/" + std::string(name))) << "x";
  recipes::Recipe recipe = saving(1, 15);
  recipe.kept_saves = 2;
  SavedWeights(recipe, 20, 10).remove_old(folder / "w");
  EXPECT_THAT(names_in(folder / "w"),
              UnorderedElementsAre("model_step_15.pt", "model_step_15_ema.pt", "model_epoch_2.pt",
                                   "model_step_100000000000000000000.pt", "model_epoch_x.pt",
                                   "model_step_30.pt.part", "notes.txt"));
  SavedWeights(recipe, 20, 10).remove_old(folder / "none");
}

// Steps of smaller batches come before it went on with larger ones.
TEST(SavedWeights, AreOldByTheTimeOfWriting) {
  const Folder folder;
  std::filesystem::create_directory(folder / "w");
  const std::filesystem::file_time_type begin(std::chrono::hours(1));
  const auto write = [&](const char* name, int minute) {
    const std::filesystem::path file = folder / ("w/" + std::string(name));
    std::ofstream(file) << "x";
    std::filesystem::last_write_time(file, begin + std::chrono::minutes(minute));
  };
  write("model_step_90.pt", 1);
  write("model_step_120.pt", 2);
  write("model_step_45_ema.pt", 1);
  write("model_step_45.pt", 3);
  write("model_step_60.pt", 4);
  write("model_step_90_ema.pt", 9);
  recipes::Recipe recipe = saving({}, 15);
  recipe.kept_saves = 2;
  SavedWeights(recipe, 40, 10).remove_old(folder / "w");
  EXPECT_THAT(names_in(folder / "w"),
              UnorderedElementsAre("model_step_45.pt", "model_step_45_ema.pt", "model_step_60.pt"));
}

TEST(SavedWeights, OfATrainingInSteps) {
  const Folder folder;
  recipes::Recipe recipe = saving(1, 4);
  recipe.train.epochs.reset();
  recipe.train.steps = 23;
  recipe.kept_saves = 3;
  const auto job = load(recipe);
  const ProgressSink nobody = [](const Json&) {};
  const TrainingSummary summary =
      value_of(train(*job, {.checkpoint_path = folder / "checkpoint-r-1.pt"}, nobody, never));
  EXPECT_EQ(summary.steps, 23);
  EXPECT_THAT(names_in(folder / "weights-r-1"),
              UnorderedElementsAre("model_step_16.pt", "model_step_20.pt", "model_epoch_2.pt"));
}

// It changes nothing about the training, and an interrupted one saves the same files.
TEST(SavedWeights, AreThoseOfATrainingWithoutInterruption) {
  const Folder folder;
  const ProgressSink nobody = [](const Json&) {};
  const auto plain = load(saving({}, {}));
  value_of(train(*plain, {.checkpoint_path = folder / "checkpoint-r-1.pt"}, nobody, never));
  const recipes::Recipe recipe = saving({}, 3);
  std::string digest;
  // The first four are cut short after a step.
  for (int round = 0; round < 5; ++round) {
    const auto job = load(recipe);
    const TrainRequest request{.checkpoint_path = folder / "checkpoint-r-2.pt", .resume = true};
    const TrainingSummary part =
        value_of(train(*job, request, nobody, [round] { return round < 4; }));
    EXPECT_EQ(part.was_cancelled, round < 4);
    digest = value_of(job->digest());
  }
  EXPECT_EQ(digest, value_of(plain->digest()));
  EXPECT_THAT(names_in(folder / "weights-r-2"),
              UnorderedElementsAre("model_step_12.pt", "model_step_15.pt", "model_step_18.pt"));
}

}  // namespace
}  // namespace autotuned::trainer
