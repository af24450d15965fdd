// SPDX-License-Identifier: Apache-2.0
// A training that goes on from the end of another one.
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "recipes/schedule.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/job/training.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

struct ExtendedTraining {
  TrainingSummary summary;
  std::string digest;
  std::vector<double> rates;  // as they were told
};

ExtendedTraining train_all(Job& job, const TrainRequest& request,
                           const CancelCheck& is_cancelled = never) {
  ExtendedTraining trained;
  const ProgressSink sink = [&trained](const Json& frame) {
    if (frame.contains("learning_rate")) trained.rates.push_back(frame["learning_rate"]);
  };
  trained.summary = value_of(train(job, request, sink, is_cancelled));
  trained.digest = value_of(job.digest());
  return trained;
}

// Cut short after a step.
bool always() {
  return true;
}

// Two epochs of 10 steps, with all that a state may have.
recipes::Recipe short_recipe() {
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer = {
      "adamw", {{"lr", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.1}}};
  recipe.step_rules.ema_decay = 0.9;
  recipe.evaluation->saves_best = true;
  return recipe;
}

recipes::Recipe longer(recipes::Recipe recipe, std::int64_t epochs) {
  recipe.train.epochs = epochs;
  return recipe;
}

std::string refusal(const recipes::Recipe& recipe, const TrainRequest& request) {
  const auto job = load(recipe);
  const auto result = train(
      *job, request, [](const Json&) {}, never);
  return result ? "accepted" : result.error().message();
}

class Extended : public testing::Test {
 protected:
  // Trains the short recipe; its last checkpoint is the state.
  ExtendedTraining train_short(const recipes::Recipe& recipe) const {
    return train_all(*load(recipe), {.checkpoint_path = state()});
  }
  [[nodiscard]] std::filesystem::path state() const { return folder_ / "checkpoint-r-1.pt"; }
  [[nodiscard]] TrainRequest request(bool restarts_schedule = false) const {
    return {.checkpoint_path = folder_ / "checkpoint-r-2.pt",
            .resume = true,
            .extend = ExtendRequest{
                .state = state(), .run = "r-1", .restarts_schedule = restarts_schedule}};
  }

  Folder folder_;
};

// A bit of the last checkpoint changes on the disk.
TEST_F(Extended, RefusesADamagedStateAndSaysWhatToDo) {
  const recipes::Recipe recipe = longer(short_recipe(), 4);
  train_short(short_recipe());
  const std::string whole = value_of(read_file(state(), std::size_t{1} << 20U));
  caffe2::serialize::PyTorchStreamReader reader(state().string());
  const auto damage = [&](const std::filesystem::path& file) {
    std::string bytes = whole;
    bytes[reader.getRecordOffset("data/0")] ^= 1;
    ASSERT_TRUE(write_file_atomically(file, bytes));
  };
  damage(state());
  EXPECT_EQ(refusal(recipe, request()),
            state().string() +
                ": the file is damaged: record data/0 has another checksum; train "
                "anew, without --extend");
  // Not in the words of a zip library.
  ASSERT_TRUE(write_file_atomically(state(), "nothing of an archive"));
  EXPECT_EQ(refusal(recipe, request()),
            state().string() +
                ": the checkpoint is damaged: it is no archive that PyTorch can read; train anew, "
                "without --extend");
  damage(state());
  const std::filesystem::path own = folder_ / "checkpoint-r-2.pt";
  damage(own);
  EXPECT_EQ(refusal(recipe, request()),
            own.string() +
                ": the file is damaged: record data/0 has another checksum; delete it "
                "to train from the start");
}

class ExtendedBySchedule : public Extended,
                           public testing::WithParamInterface<recipes::Component> {};

// Every schedule that does not depend on the length.
TEST_P(ExtendedBySchedule, IsOneThatWasSoLongFromTheStart) {
  recipes::Recipe recipe = short_recipe();
  recipe.schedule = GetParam();
  ASSERT_EQ(recipes::length_dependence(recipe.schedule), recipes::LengthDependence::none);
  const recipes::Recipe whole_recipe = longer(recipe, 5);
  const ExtendedTraining whole =
      train_all(*load(whole_recipe), {.checkpoint_path = folder_ / "checkpoint-r-0.pt"});
  train_short(recipe);
  const ExtendedTraining extended = train_all(*load(whole_recipe), request());
  EXPECT_EQ(extended.digest, whole.digest);
  EXPECT_EQ(extended.summary.resumed_from_step, 20);
  EXPECT_EQ(extended.summary.steps, 50);
  EXPECT_EQ(extended.summary.epochs, 5);
  EXPECT_EQ(extended.summary.final_loss, whole.summary.final_loss);
  EXPECT_EQ(extended.summary.test->loss, whole.summary.test->loss);
  EXPECT_EQ(extended.rates.back(), whole.rates.back());
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, ExtendedBySchedule,
    testing::Values(
        recipes::Component{"constant"},
        recipes::Component{"multi_step", {{"epochs", {1, 3}}, {"gamma", 0.5}}},
        recipes::Component{"step", {{"step_epochs", 2}, {"gamma", 0.5}}},
        recipes::Component{"exponential", {{"gamma", 0.7}, {"warmup_epochs", 3}}},
        recipes::Component{
            "plateau",
            {{"factor", 0.5}, {"patience", 0}, {"threshold", 0.5}, {"min_lr_ratio", 0.0}}}),
    [](const auto& tested) { return tested.param.type; });

TEST_F(Extended, EndsInTheSameBitsWhenItIsInterrupted) {
  recipes::Recipe recipe = patch_dropout_recipe();
  recipe.evaluation.reset();
  const recipes::Recipe whole_recipe = longer(recipe, 3);
  const std::string whole =
      train_all(*load(whole_recipe), {.checkpoint_path = folder_ / "checkpoint-r-0.pt"}).digest;
  train_short(recipe);
  const ExtendedTraining part = train_all(*load(whole_recipe), request(), always);
  ASSERT_TRUE(part.summary.was_cancelled);
  // From its own checkpoint: the state has gone.
  std::filesystem::remove(state());
  const ExtendedTraining rest = train_all(*load(whole_recipe), request());
  EXPECT_EQ(rest.summary.resumed_from_step, part.summary.steps);
  EXPECT_EQ(rest.digest, whole);
}

// Steps in the middle of an epoch, after which the training has one more evaluation than a longer one has there.
TEST_F(Extended, GoesOnInTheMiddleOfAnEpoch) {
  recipes::Recipe recipe = short_recipe();
  recipe.train.epochs.reset();
  recipe.train.steps = 13;
  recipes::Recipe whole_recipe = recipe;
  whole_recipe.train.steps = 31;
  const std::string whole =
      train_all(*load(whole_recipe), {.checkpoint_path = folder_ / "checkpoint-r-0.pt"}).digest;
  EXPECT_EQ(train_short(recipe).summary.steps, 13);
  EXPECT_EQ(train_all(*load(whole_recipe), request()).digest, whole);
}

TEST_F(Extended, CanBeginACourseAnew) {
  recipes::Recipe recipe = short_recipe();
  recipe.schedule = {"cosine", {{"warmup_ratio", 0.0}, {"min_lr_ratio", 0.0}}};
  const ExtendedTraining first = train_short(recipe);
  EXPECT_LT(first.rates.back(), 0.001) << "at its end";
  const recipes::Recipe whole = longer(recipe, 4);
  // The first step of what is added.
  const auto rate_of = [&](bool restarts) {
    const auto job = load(whole);
    EXPECT_EQ(train_all(*job, request(restarts), always).summary.steps, 21);
    std::filesystem::remove(folder_ / "checkpoint-r-2.pt");
    return job->last_learning_rate();
  };
  EXPECT_NEAR(rate_of(true), 0.01, 1e-12);
  EXPECT_NEAR(rate_of(false), 0.005, 1e-12);
  // It ends with the training, also after an interruption.
  ASSERT_TRUE(train_all(*load(whole), request(true), always).summary.was_cancelled);
  const auto rest = load(whole);
  train_all(*rest, request(true));
  EXPECT_EQ(rest->steps(), 40);
  EXPECT_LT(rest->last_learning_rate(), 0.001);
  EXPECT_GT(rest->last_learning_rate(), 0.0);
}

TEST_F(Extended, StretchesACourseThatWasBegunAnew) {
  recipes::Recipe recipe = short_recipe();
  recipe.schedule = {"cosine", {{"warmup_ratio", 0.0}, {"min_lr_ratio", 0.0}}};
  train_short(recipe);
  train_all(*load(longer(recipe, 4)), request(/*restarts_schedule=*/true));
  const recipes::Recipe whole = longer(recipe, 8);
  const auto job = load(whole);
  const ExtendRequest after{.state = folder_ / "checkpoint-r-2.pt", .run = "r-2"};
  const TrainRequest third{
      .checkpoint_path = folder_ / "checkpoint-r-3.pt", .resume = true, .extend = after};
  EXPECT_EQ(train_all(*job, third, always).summary.steps, 41);
  // Half of the whole length.
  EXPECT_NEAR(job->last_learning_rate(), 0.005, 1e-12);
}

// An evaluation that a longer training would not have there: what it saved gives way to a better one only.
TEST_F(Extended, KnowsWhatWasSavedAtTheEnd) {
  recipes::Recipe recipe = short_recipe();
  recipe.optimizer.parameters["lr"] = 1e-30;  // nothing gets better
  recipe.evaluation->every = "end";
  train_short(recipe);
  ASSERT_TRUE(std::filesystem::exists(folder_ / "model_best-r-1.pt"));
  const Json best =
      member(parse_json(value_of(read_checkpoint(state())).note, "note").value_or(Json()), "best");
  EXPECT_TRUE(member(best, "saved_best").is_number());
  EXPECT_TRUE(member(best, "value").is_null()) << "it decides nothing";
  const TrainingSummary sequel = train_all(*load(longer(recipe, 3)), request()).summary;
  EXPECT_TRUE(sequel.test);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model_best-r-2.pt"));
  EXPECT_EQ(get_integer(sequel.best_evaluation, "epoch").value_or(0), 2) << "that of the other run";
}

// Batches of 60 drop 20 samples of each epoch, so that those of 20 have made more.
TEST_F(Extended, KeepsWhereACourseBeganWithSmallerBatches) {
  recipes::Recipe recipe = short_recipe();
  recipe.schedule = {"cosine", {{"warmup_ratio", 0.0}, {"min_lr_ratio", 0.0}}};
  const auto with_batches = [](const recipes::Recipe& of, std::int64_t size) {
    return load(of, with(starting(of), "batch_size", size));
  };
  train_all(*with_batches(recipe, 60), {.checkpoint_path = state()});
  const recipes::Recipe whole = longer(recipe, 4);
  TrainRequest sequel = request(/*restarts_schedule=*/true);
  EXPECT_EQ(train_all(*with_batches(whole, 60), sequel, always).summary.steps, 7);
  sequel.takes_other_batch_size = true;
  const auto job = with_batches(whole, 20);
  EXPECT_EQ(train_all(*job, sequel, always).summary.steps, 24);
  // After 360 of 420 samples, which are 460 now.
  const std::int64_t begin = 394;
  EXPECT_NEAR(
      job->last_learning_rate(),
      0.01 * recipes::schedule_factor(
                 whole.schedule, 460 - begin,
                 {.samples_per_epoch = 200, .samples = 800 - begin, .samples_per_step = 20}),
      1e-12);
}

// What the other run has left stays whole until this one is complete.
TEST_F(Extended, WritesNothingOfTheOtherRun) {
  recipes::Recipe recipe = short_recipe();
  train_short(recipe);
  const auto best = folder_ / "model_best-r-1.pt";
  ASSERT_TRUE(std::filesystem::exists(best));
  const auto written = std::filesystem::last_write_time(best);
  const auto kept = std::filesystem::last_write_time(state());
  recipe.evaluation->best_by = "loss";  // of which no best one is known
  train_all(*load(longer(recipe, 3)), request());
  EXPECT_EQ(std::filesystem::last_write_time(best), written);
  EXPECT_EQ(std::filesystem::last_write_time(state()), kept);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "model_best-r-2.pt"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "model_best-r-2_ema.pt"));
}

TEST_F(Extended, RefusesWhatIsNoStateOfIt) {
  recipes::Recipe recipe = short_recipe();
  train_short(recipe);
  EXPECT_THAT(refusal(recipe, request()), HasSubstr("has 20 steps already, and is to have 20"));
  TrainRequest of_another = request();
  of_another.extend->run = "r-7";
  EXPECT_THAT(refusal(longer(recipe, 3), of_another),
              HasSubstr("the checkpoint is of another run"));
  recipes::Recipe other_rate = longer(recipe, 3);
  other_rate.optimizer.parameters["lr"] = 0.02;
  EXPECT_THAT(refusal(other_rate, request()), HasSubstr("the checkpoint is of another recipe"));
  std::filesystem::remove(state());
  EXPECT_THAT(refusal(longer(recipe, 3), request()), HasSubstr("checkpoint-r-1.pt"));
}

// It would end a longer training at the same place.
TEST_F(Extended, RefusesATrainingThatPatienceHasEnded) {
  recipes::Recipe recipe = short_recipe();
  recipe.optimizer.parameters["lr"] = 1e-30;
  recipe.train.epochs = 9;
  recipe.evaluation->patience = 1;
  const TrainingSummary ended = train_short(recipe).summary;
  EXPECT_EQ(ended.epochs, 2);
  EXPECT_EQ(ended.evaluations_since_best, 1);
  EXPECT_THAT(refusal(longer(recipe, 20), request()),
              HasSubstr("evaluate.patience: it has ended the training after epoch 2"));
  recipe.evaluation->patience = 3;
  EXPECT_EQ(train_all(*load(longer(recipe, 20)), request()).summary.epochs, 4);
}

}  // namespace
}  // namespace autotuned::trainer
