// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/test_report.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "daemon/report/report.hpp"

namespace autotuned::daemon {
namespace {

Json tested() {
  return Json::parse(R"({
    "steps": 10, "test_accuracy": 0.7, "test_top5_accuracy": 0.985,
    "test_classes": [
      {"class": "bag", "samples": 2000, "precision": 0.9, "recall": 0.9},
      {"class": "no\nsuch", "samples": 0, "precision": null, "recall": null},
      {"class": "coat", "samples": 2000, "precision": 0.5, "recall": 0.25},
      {"class": 3, "samples": 10, "precision": 1.0, "recall": 0.5}],
    "test_confusion": [[1800, 0, 200, 0], [0, 0, 0, 0], [1500, 0, 500, 0], [0, 5, 0, 5]]})");
}

TEST(TestReport, NamesTheWorstAndTheBestClass) {
  Json training = tested();
  EXPECT_EQ(classes_text(training),
            "classes  recall from 25.00 % (coat) to 90.00 % (bag); most often taken for another: "
            "coat for bag, 1,500 of 2,000\n");
  training["test_confusion"] =
      Json::parse("[[9, 0, 0, 0], [0, 0, 0, 0], [0, 0, 9, 0], [0, 0, 0, 9]]");
  EXPECT_EQ(classes_text(training), "classes  recall from 25.00 % (coat) to 90.00 % (bag)\n");
  // A class without a name, and one that would steer a terminal.
  training["test_confusion"] = tested()["test_confusion"];
  training["test_confusion"][3][1] = 1600;
  EXPECT_NE(classes_text(training).find("another: class 3 for no?such, 1,600 of 10\n"),
            std::string::npos);
}

TEST(TestReport, SaysThatTheLossIsNotFinite) {
  storage::RunRow run;
  run.training = {{"steps", 10}, {"test_accuracy", 0.25}, {"evaluation_ns", 7}};
  run.training["test_loss"] = nullptr;
  EXPECT_EQ(test_figures_text(run), ", test accuracy 25.00 %, test loss not finite");
  run.training["test_loss"] = 0.5;
  EXPECT_EQ(test_figures_text(run), ", test accuracy 25.00 %");
  // Nothing was evaluated.
  run.training = {{"steps", 10}, {"evaluation_ns", 0}};
  run.training["test_loss"] = nullptr;
  EXPECT_EQ(test_figures_text(run), "");
}

TEST(TestReport, TellsTheOverlapOfMasks) {
  const Json training = Json::parse(R"({
    "steps": 10, "test_accuracy": 0.9312, "test_miou": 0.7312,
    "test_classes": [
      {"class": "ground", "pixels": 9000, "iou": 0.95, "precision": 0.99, "recall": 0.96},
      {"class": "cat", "pixels": 1000, "iou": 0.5, "precision": 0.6, "recall": 0.7},
      {"class": "dog", "pixels": 0, "iou": null, "precision": null, "recall": null}],
    "test_confusion": [[8640, 360, 0], [300, 700, 0], [0, 0, 0]]})");
  EXPECT_EQ(classes_text(training),
            "classes  IoU from 50.00 % (cat) to 95.00 % (ground); most often taken for another: "
            "ground for cat, 360 of 9,000 pixels\n");
  storage::RunRow run;
  run.best.set("batch_size", std::int64_t{1});
  run.training = training;
  EXPECT_NE(summary_text(run, {}).find("10 steps, mean IoU 0.7312, pixel accuracy 93.12 %"),
            std::string::npos);
}

TEST(TestReport, SaysNothingOfWhatIsNotKnown) {
  EXPECT_EQ(classes_text(Json::object()), "");
  EXPECT_EQ(classes_text({{"test_classes", Json::array()}}), "");
  Json training = tested();
  for (const char* const odd : {"[]", "[1, 2, 3, 4]", "[[1], [1], [1], [1]]", "null"}) {
    training["test_confusion"] = Json::parse(odd);
    EXPECT_EQ(classes_text(training), "classes  recall from 25.00 % (coat) to 90.00 % (bag)\n");
  }
}

// "From 0.00 % (coat) to 0.00 % (coat)" compares nothing.
TEST(TestReport, ComparesNoClassWithItself) {
  Json training = tested();
  for (Json& one : training["test_classes"])
    if (one["class"] != "coat") one["recall"] = nullptr;
  EXPECT_EQ(classes_text(training), "");
}

storage::RunRow tested_run(const Json& training) {
  storage::RunRow run;
  run.best.set("batch_size", std::int64_t{1});
  run.training = training;
  return run;
}

// Those of the weights in model.pt are others.
TEST(TestReport, SaysThatItsFiguresAreThoseOfTheAverages) {
  storage::RunRow run = tested_run(
      {{"steps", 10}, {"test_loss", 0.5}, {"test_accuracy", 0.875}, {"test_perplexity", 1.564}});
  EXPECT_EQ(test_figures_text(run), ", test accuracy 87.50 %, perplexity 1.564");
  EXPECT_FALSE(run_summary_json(run)["training"].contains(kTestWeights));
  run.recipe = {{"train", {{"epochs", 3}, {"ema_decay", 0.99}}}};
  EXPECT_NE(summary_text(run, {}).find("trained  10 steps, test accuracy 87.50 %, perplexity 1.564 "
                                       "(of model_ema.pt)\n"),
            std::string::npos);
  EXPECT_EQ(run_summary_json(run)["training"][kTestWeights], "model_ema.pt");
  run.training = {{"steps", 10}};
  EXPECT_EQ(test_figures_text(run), "") << "nothing was evaluated";
  EXPECT_FALSE(run_summary_json(run)["training"].contains(kTestWeights));
}

TEST(TestReport, TellsTheBestEvaluation) {
  storage::RunRow run = tested_run({{"steps", 98}, {"test_mae", 0.0567}});
  EXPECT_EQ(best_evaluation_text(run), "");
  run.training["best_evaluation"] = {{"epoch", 6}, {"mae", 0.05487}};
  EXPECT_NE(summary_text(run, {}).find(
                "\nbest at  epoch 6, mean absolute error 0.05487: model_best.pt\n"),
            std::string::npos);
  EXPECT_EQ(run_summary_json(run)["training"]["best_evaluation"]["epoch"], 6);
  run.training["best_evaluation"] = {{"epoch", 6}, {"loss", 0.25}};
  run.recipe = {{"train", {{"ema_decay", 0.99}}}};
  EXPECT_EQ(best_evaluation_text(run), "best at  epoch 6, test loss 0.2500: model_best_ema.pt\n");
  for (const Json& odd : {Json(), Json(7), Json{{"epoch", "6"}}}) {
    run.training["best_evaluation"] = odd;
    EXPECT_EQ(best_evaluation_text(run), "");
  }
}

// What is long is in the JSON of a run, not in that of a list of runs.
TEST(TestReport, IsShortUnlessAsked) {
  storage::RunRow run;
  run.best.set("batch_size", std::int64_t{1});
  run.training = tested();
  const std::string text = summary_text(run, {});
  EXPECT_NE(text.find("trained  10 steps, test accuracy 70.00 %\nclasses  recall"),
            std::string::npos)
      << text;
  EXPECT_EQ(run_json(run, {}, {}, {})["training"], tested());
  const Json listed = run_summary_json(run)["training"];
  EXPECT_FALSE(listed.contains("test_classes"));
  EXPECT_FALSE(listed.contains("test_confusion"));
  EXPECT_EQ(listed["test_top5_accuracy"], 0.985);
}

// With few classes it says nothing; with more than 1,000 there is no list of them.
TEST(TestReport, TellsTop5OnlyOfManyClasses) {
  Json training = tested();
  training.erase("test_confusion");
  const auto told_of = [&training](std::size_t classes) {
    training["test_classes"] = Json::array();
    for (std::size_t i = 0; i < classes; ++i)
      training["test_classes"].push_back({{"class", i}, {"samples", 1}, {"recall", 0.5}});
    return test_figures_text(tested_run(training));
  };
  const std::string without = ", test accuracy 70.00 %";
  EXPECT_EQ(told_of(19), without);
  EXPECT_EQ(told_of(20), without + ", top 5 98.50 %");
  training.erase("test_classes");
  EXPECT_EQ(test_figures_text(tested_run(training)), without + ", top 5 98.50 %");
}

}  // namespace
}  // namespace autotuned::daemon
