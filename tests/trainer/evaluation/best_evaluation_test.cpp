// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/best_evaluation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/evaluation/plateau.hpp"
#include "trainer/job/training.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {
namespace {

TestResult result(double accuracy, double loss) {
  return {.samples = 100, .accuracy = accuracy, .loss = loss, .was_cancelled = false};
}

TEST(BestEvaluation, IsTheHighestAccuracyOrTheLowestLoss) {
  recipes::Evaluation rules;
  BestEvaluation by_accuracy(rules);
  EXPECT_TRUE(by_accuracy.take(result(0.5, 1.0), 1));
  EXPECT_FALSE(by_accuracy.take(result(0.5, 0.5), 2));
  EXPECT_TRUE(by_accuracy.take(result(0.6, 2.0), 3));
  EXPECT_EQ(by_accuracy.best_epoch(), 3);
  rules.best_by = "loss";
  BestEvaluation by_loss(rules);
  EXPECT_FALSE(by_loss.take(result(0.5, std::numeric_limits<double>::quiet_NaN()), 1));
  EXPECT_TRUE(by_loss.take(result(0.5, 1.0), 2));
  EXPECT_TRUE(by_loss.take(result(0.4, 0.9), 3));
  EXPECT_FALSE(by_loss.take(result(0.9, 0.95), 4));
  EXPECT_EQ(by_loss.best_epoch(), 3);
}

TEST(BestEvaluation, EndsATrainingThatGetsNoBetter) {
  recipes::Evaluation rules;
  rules.patience = 2;
  BestEvaluation best(rules);
  BestEvaluation resumed(rules);
  for (const double accuracy : {0.5, 0.4, 0.6, 0.6}) {
    (void)best.take(result(accuracy, 1.0), 1);
    EXPECT_FALSE(best.is_over());
    resumed.read(best.to_json());
  }
  (void)best.take(result(0.6, 1.0), 5);
  (void)resumed.take(result(0.6, 1.0), 5);
  EXPECT_TRUE(best.is_over());
  EXPECT_TRUE(resumed.is_over());
  EXPECT_FALSE(BestEvaluation(std::nullopt).is_over());
}

// As a longer training would decide, but what was saved at the end is replaced by better ones only.
TEST(BestEvaluation, OfTheEndAloneCountsForWhatIsSaved) {
  recipes::Evaluation rules;
  rules.patience = 2;
  BestEvaluation first(rules);
  EXPECT_TRUE(first.take(result(0.5, 1.0), 1));
  EXPECT_FALSE(first.take_last(result(0.4, 1.0)));
  EXPECT_FALSE(first.saved());
  EXPECT_TRUE(first.take_last(result(0.7, 1.0)));
  EXPECT_FALSE(first.take_last(result(0.7, 1.0))) << "again, after an interruption";
  BestEvaluation sequel(rules);
  sequel.read(first.to_json());
  EXPECT_FALSE(sequel.take(result(0.6, 1.0), 2)) << "worse than what is saved";
  EXPECT_EQ(sequel.best_epoch(), 2) << "and the best of a longer training";
  EXPECT_FALSE(sequel.take(result(0.6, 1.0), 3));
  EXPECT_FALSE(sequel.is_over());
  EXPECT_TRUE(sequel.take(result(0.8, 1.0), 4));
}

// R² of targets that are all the same: says nothing about the model.
TEST(BestEvaluation, CountsNoneWithoutTheFigure) {
  recipes::Evaluation rules;
  rules.best_by = "r2";
  rules.patience = 1;
  BestEvaluation best(rules);
  TestResult test = result(0.0, 1.0);
  test.numbers = NumberFigures();
  for (int epoch = 1; epoch < 4; ++epoch) {
    EXPECT_FALSE(best.has_figure(test));
    EXPECT_FALSE(best.take(test, epoch));
    EXPECT_FALSE(best.is_over());
  }
  test.numbers->r2 = 0.5;
  EXPECT_TRUE(best.has_figure(test));
  EXPECT_TRUE(best.take(test, 4));
  EXPECT_FALSE(best.take(test, 5));
  EXPECT_TRUE(best.is_over());
}

TEST(BestEvaluation, IsToldByItsFigure) {
  recipes::Evaluation rules;
  EXPECT_EQ(BestEvaluation(rules).told(result(0.5, 1.0), 6),
            (Json{{"epoch", 6}, {"accuracy", 0.5}}));
  rules.best_by = "loss";
  EXPECT_EQ(BestEvaluation(rules).told(result(0.5, 1.25), 6), (Json{{"epoch", 6}, {"loss", 1.25}}));
  rules.best_by = "mae";
  EXPECT_TRUE(BestEvaluation(rules).told(result(0.5, 1.0), 6).is_null());
  TestResult test = result(0.0, 1.0);
  test.numbers = NumberFigures();
  test.numbers->mae = 0.125;
  EXPECT_EQ(BestEvaluation(rules).told(test, 7), (Json{{"epoch", 7}, {"mae", 0.125}}));
}

TEST(BestEvaluation, ForgetsThatOfAnotherFigure) {
  recipes::Evaluation rules;
  BestEvaluation by_accuracy(rules);
  EXPECT_TRUE(by_accuracy.take(result(0.5, 1.0), 3));
  rules.best_by = "loss";
  BestEvaluation by_loss(rules);
  by_loss.read(by_accuracy.to_json());
  EXPECT_EQ(by_loss.best_epoch(), 0);
  EXPECT_TRUE(by_loss.take(result(0.5, 1.0), 4));
}

// ReduceLROnPlateau(factor=0.5, patience=1, threshold=0.1): 0.95 and 0.91 are not 10 % below 1, 0.8 is.
TEST(Plateau, IsPyTorchsReduceLrOnPlateau) {
  const recipes::Component schedule{
      "plateau", {{"factor", 0.5}, {"patience", 1}, {"threshold", 0.1}, {"min_lr_ratio", 0.2}}};
  Plateau straight(schedule);
  double factor = 1.0;
  std::vector<double> factors;
  Json saved;
  for (const double loss : {1.0, 0.95, 0.91, 0.91, 0.8, 0.8, 0.8, 0.8, 0.8}) {
    Plateau resumed(schedule);
    resumed.read(saved);
    const double again = resumed.take(loss, factor);
    factor = straight.take(loss, factor);
    EXPECT_EQ(again, factor);
    saved = straight.to_json();
    factors.push_back(factor);
  }
  EXPECT_THAT(factors, testing::ElementsAre(1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2));
  EXPECT_EQ(Plateau(recipes::Component{"constant"}).take(1.0, 1.0), 1.0);
}

// Its factor is part of the state: what begins from a checkpoint goes on with it, what begins anew does not.
TEST(Plateau, LowersTheRateOfATraining) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer.parameters["lr"] = 1e-30;
  recipe.train.epochs = 4;
  recipe.schedule = {"plateau",
                     {{"factor", 0.5}, {"patience", 0}, {"threshold", 0.0}, {"min_lr_ratio", 0.0}}};
  const auto job = load(recipe);
  const ProgressSink nobody = [](const Json&) {};
  value_of(train(*job, {.checkpoint_path = folder / "c"}, nobody, never));
  EXPECT_EQ(job->rate_factor(), 0.125);
  value_of(job->keep("end"));
  EXPECT_TRUE(job->restore("initial"));
  EXPECT_EQ(job->rate_factor(), 1.0);
  EXPECT_TRUE(job->restore("end"));
  EXPECT_EQ(job->rate_factor(), 0.125);
}

struct EvaluatedTraining {
  TrainingSummary summary;
  std::vector<Json> progress;
};

EvaluatedTraining train_all(Job& job, const TrainRequest& request,
                            const CancelCheck& is_cancelled = never) {
  EvaluatedTraining trained;
  const ProgressSink sink = [&trained](const Json& frame) { trained.progress.push_back(frame); };
  trained.summary = value_of(train(job, request, sink, is_cancelled));
  return trained;
}

// A rate of nearly nothing: the first evaluation stays the best.
recipes::Recipe recipe_that_learns_nothing() {
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer.parameters["lr"] = 1e-30;
  recipe.train.epochs = 9;
  recipe.evaluation->saves_best = true;
  recipe.evaluation->patience = 2;
  return recipe;
}

TEST(EarlyEnd, KeepsTheBestModel) {
  const Folder folder;
  const auto job = load(recipe_that_learns_nothing());
  const EvaluatedTraining trained = train_all(*job, {.checkpoint_path = folder / "c"});
  EXPECT_EQ(trained.summary.epochs, 3);
  EXPECT_FALSE(trained.summary.was_cancelled);
  EXPECT_TRUE(trained.summary.test);
  std::vector<std::string> warnings;
  for (const Json& frame : trained.progress)
    if (frame.contains("warning")) warnings.push_back(frame["warning"].get<std::string>());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.front(),
              testing::HasSubstr("ends after epoch 3 of 9: no evaluation was better than that of "
                                 "epoch 1"));
  EXPECT_EQ(value_of(read_model(folder / "model_best-c.pt")).size(), 4U);
  const Json best = {{"epoch", 1}, {"accuracy", trained.summary.test->accuracy}};
  EXPECT_EQ(trained.summary.best_evaluation, best);
  Json told = Json::array();  // that it is the best one
  for (const Json& frame : trained.progress)
    if (frame.contains("evaluation")) told.push_back(member(frame["evaluation"], "is_best"));
  EXPECT_EQ(told, Json::array({true, nullptr, nullptr}));
}

// Nobody asks for the best one.
TEST(BestModel, IsNotToldWithoutTheKey) {
  const Folder folder;
  const auto job = load(small_recipe());
  const EvaluatedTraining trained = train_all(*job, {.checkpoint_path = folder / "c"});
  EXPECT_TRUE(trained.summary.best_evaluation.is_null());
  for (const Json& frame : trained.progress)
    EXPECT_FALSE(member(frame, "evaluation").contains("is_best"));
}

// It may be the only good one, and this training may never end.
TEST(BestModel, OfAnEarlierTrainingStays) {
  const Folder folder;
  recipes::Recipe recipe = recipe_that_learns_nothing();
  recipe.step_rules.ema_decay = 0.9;
  for (const char* const name : {"model_best.pt", "model_best_ema.pt"})
    std::ofstream(folder / name) << "of an earlier training";
  (void)train_all(*load(recipe), {.checkpoint_path = folder / "checkpoint-r-2.pt"});
  for (const char* const name : {"model_best.pt", "model_best_ema.pt"})
    EXPECT_EQ(read_file(folder / name, 100).value_or(""), "of an earlier training");
  for (const char* const name : {"model_best-r-2.pt", "model_best-r-2_ema.pt"})
    EXPECT_EQ(value_of(read_model(folder / name)).size(), 4U);
}

// The best evaluation was before the interruption, and none after it saves again.
TEST(BestModel, OfAnInterruptedTrainingIsItsOwn) {
  const Folder folder;
  const auto job = load(recipe_that_learns_nothing());
  const TrainRequest request{.checkpoint_path = folder / "checkpoint-r-1.pt", .resume = true};
  const auto part = train_all(*job, request, [&] { return job->steps() > 10; });
  ASSERT_TRUE(part.summary.was_cancelled);
  const auto saved = folder / "model_best-r-1.pt";
  const auto written = std::filesystem::last_write_time(saved);
  const TrainingSummary rest = train_all(*job, request).summary;
  EXPECT_FALSE(rest.was_cancelled);
  EXPECT_EQ(std::filesystem::last_write_time(saved), written);
  EXPECT_EQ(get_integer(rest.best_evaluation, "epoch").value_or(0), 1);
}

// With an average, which has a file of its own beside each.
TEST(SavedEpochs, KeepTheLastOnes) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.train.epochs = 7;
  recipe.evaluation.reset();
  recipe.step_rules.ema_decay = 0.9;
  recipe.save_every_epochs = 2;
  recipe.kept_saves = 2;
  const auto job = load(recipe);
  std::ofstream(folder / "model_epoch_2.pt") << "of somebody else";
  (void)train_all(*job, {.checkpoint_path = folder / "checkpoint-r-1.pt"});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "weights-r-1"))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre("model_epoch_4.pt", "model_epoch_4_ema.pt",
                                                   "model_epoch_6.pt", "model_epoch_6_ema.pt"));
  EXPECT_EQ(read_file(folder / "model_epoch_2.pt", 100).value_or(""), "of somebody else");
}

// Stopped again and again, it ends where it would have ended, and a training that has ended stays so.
TEST(EarlyEnd, IsTheSameWithInterruptions) {
  const Folder folder;
  const auto job = load(recipe_that_learns_nothing());
  EvaluatedTraining last;
  int attempts = 0;
  do {
    const std::int64_t begin = attempts == 0 ? 0 : last.summary.steps;
    last = train_all(*job, {.checkpoint_path = folder / "c", .resume = attempts > 0},
                     [&] { return job->steps() > begin; });
    ASSERT_LT(++attempts, 100);
  } while (last.summary.was_cancelled);
  EXPECT_EQ(last.summary.steps, 30);
  const EvaluatedTraining again =
      train_all(*job, {.checkpoint_path = folder / "c", .resume = true});
  EXPECT_EQ(again.summary.steps, 30);
  EXPECT_FALSE(again.summary.was_cancelled);
}

}  // namespace
}  // namespace autotuned::trainer
