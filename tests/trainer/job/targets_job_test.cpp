// SPDX-License-Identifier: Apache-2.0
// Jobs whose targets are numbers: losses, training, evaluation, and that knobs change nothing.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/places.hpp"
#include "tests/trainer/job/whole_training.hpp"
#include "trainer/evaluation/best_evaluation.hpp"
#include "trainer/evaluation/test_figures.hpp"
#include "trainer/evaluation/test_tags.hpp"
#include "trainer/evaluation/test_values.hpp"
#include "trainer/models/loss.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

recipes::Component numbers(std::int64_t samples, std::int64_t targets) {
  return {"synthetic_targets",
          {{"samples", samples}, {"shape", {1, 8, 8}}, {"targets", targets}, {"shuffle", true}}};
}

// Two numbers of each sample.
recipes::Recipe number_recipe(const std::string& loss = "mse") {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 2;
  recipe.data = numbers(200, 2);
  recipe.loss = loss;
  recipe.train.epochs = 12;
  recipe.evaluation = recipes::Evaluation{.data = numbers(50, 2), .best_by = "loss"};
  return recipe;
}

std::string refusal_of(const recipes::Recipe& recipe) {
  const auto job = Job::load(recipe, starting(recipe), test_machine(), cpu_only());
  return job ? std::string() : job.error().message();
}

TEST(NumberLoss, IsPyTorchs) {
  const at::Tensor outputs = at::tensor(std::vector<float>{0.0F, 1.0F, 2.0F, -1.0F}).view({2, 2});
  const at::Tensor targets = at::tensor(std::vector<float>{0.5F, 1.0F, -1.0F, -1.25F}).view({2, 2});
  // Differences of 0.5, 0, 3 and 0.25.
  const auto loss = [&](Loss kind, double bend = 1.0) {
    return loss_of(kind, outputs, targets, {.class_weights = {}, .bend = bend}).item<double>();
  };
  EXPECT_NEAR(loss(Loss::mse), (0.25 + 9 + 0.0625) / 4, 1e-6);
  EXPECT_NEAR(loss(Loss::l1), 3.75 / 4, 1e-6);
  EXPECT_NEAR(loss(Loss::smooth_l1, 2.0), (0.25 / 4 + (3 - 1.0) + 0.0625 / 4) / 4, 1e-6);
  EXPECT_NEAR(loss(Loss::huber, 2.0), (0.25 / 2 + 2 * (3 - 1.0) + 0.0625 / 2) / 4, 1e-6);
}

TEST(TestValues, AreThoseOfAPlainCount) {
  constexpr std::int64_t kSamples = 90;
  at::manual_seed(1);
  // Far from 0 in relation to their spread, and one that never changes.
  at::Tensor targets = at::randn({kSamples, 3}) * 0.5 + 4096;
  targets.select(1, 2).fill_(0.1);
  const at::Tensor outputs = targets + at::randn({kSamples, 3}) * 0.1;
  TestValues values;
  values.add(outputs.narrow(0, 0, 50), targets.narrow(0, 0, 50));
  values.add(outputs.narrow(0, 50, 40), targets.narrow(0, 50, 40));
  TestResult result;
  result.samples = kSamples;
  values.tell(result);
  ASSERT_TRUE(result.numbers);
  const NumberFigures& found = *result.numbers;
  ASSERT_EQ(found.values.size(), 3U);

  const at::Tensor t = targets.to(at::kDouble);
  const at::Tensor errors = outputs.to(at::kDouble) - t;
  EXPECT_NEAR(found.mae, errors.abs().mean().item<double>(), 1e-12);
  double r2 = 0.0;
  for (std::int64_t k = 0; k < 2; ++k) {
    const at::Tensor column = t.select(1, k);
    const double spread = (column - column.mean()).square().sum().item<double>();
    const double expected = 1.0 - errors.select(1, k).square().sum().item<double>() / spread;
    ASSERT_TRUE(found.values[static_cast<std::size_t>(k)].r2);
    EXPECT_NEAR(*found.values[static_cast<std::size_t>(k)].r2, expected, 1e-9);
    r2 += expected / 2;
  }
  EXPECT_FALSE(found.values[2].r2);
  ASSERT_TRUE(found.r2);
  EXPECT_NEAR(*found.r2, r2, 1e-9);

  const Json json = test_json(result);
  EXPECT_TRUE(json.at("test_accuracy").is_null());
  EXPECT_EQ(json.at("test_mae"), found.mae);
  EXPECT_EQ(json.at("test_targets").size(), 3U);
  EXPECT_TRUE(json.at("test_targets").at(2).at("r2").is_null());
  const Json frame = evaluation_frame(result, 4);
  EXPECT_EQ(frame.at("r2"), *found.r2);
  EXPECT_FALSE(frame.contains("accuracy"));
}

TEST(NumberJob, LearnsThem) {
  for (const char* const loss : {"mse", "l1", "smooth_l1", "huber"}) {
    recipes::Recipe recipe = number_recipe(loss);
    recipe.data = numbers(1000, 2);
    const auto job = load(recipe);
    ASSERT_NE(job, nullptr);
    const TestResult before = value_of(job->evaluate(never));
    ASSERT_TRUE(before.numbers && before.numbers->r2);
    const Folder folder;
    const auto [summary, steps, evaluations] = trained(*job, folder / "c");
    ASSERT_TRUE(summary.test && summary.test->numbers && summary.test->numbers->r2);
    EXPECT_LT(summary.test->loss, before.loss);
    EXPECT_LT(summary.test->numbers->mae, before.numbers->mae);
    EXPECT_GT(*summary.test->numbers->r2, *before.numbers->r2);
    EXPECT_GT(*summary.test->numbers->r2, 0.3) << loss;
    ASSERT_EQ(evaluations.size(), 12U);
    EXPECT_EQ(evaluations.back().at("mae"), summary.test->numbers->mae);
  }
}

// What reaches a step is the same in every configuration of the loader.
TEST(NumberJob, IsTheSameWhateverLoadsIt) {
  const recipes::Recipe recipe = number_recipe();
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(recipe);
  const CheckedSteps expected = checked_steps(*job, start, 12);
  ASSERT_EQ(expected.inputs.size(), 12U);
  EXPECT_NE(expected.inputs[0].labels, expected.inputs[1].labels);
  for (const Configuration& other :
       {with(start, "loader.workers", std::int64_t{2}), with(start, "transfer.dtype", "uint8"),
        with(with(start, "input.cache", "raw"), "loader.workers", std::int64_t{1})}) {
    expect_same_steps(checked_steps(*job, other, 12), expected);
  }
}

TEST(NumberJob, SplitsAndAccumulates) {
  recipes::Recipe recipe = number_recipe();
  recipe.evaluation = recipes::Evaluation{.data = {}, .split_ratio = 0.2, .best_by = "loss"};
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(value_of(job->evaluate(never)).samples, 40);
  const auto losses = value_of(job->run_steps(3, never)).losses;
  recipe.step_rules.accumulate = 2;
  const auto in_parts = load(recipe);
  const auto other = value_of(in_parts->run_steps(3, never)).losses;
  ASSERT_EQ(other.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(other[i], losses[i], 1e-5);
}

TEST(NumberJob, SaysWhatDoesNotFit) {
  recipes::Recipe wide = number_recipe();
  wide.model.parameters["classes"] = 3;
  EXPECT_THAT(refusal_of(wide),
              HasSubstr("a sample of the data has 2 numbers, and the model 3 outputs"));
  EXPECT_THAT(refusal_of(number_recipe("cross_entropy")),
              HasSubstr("loss: the targets of the data are numbers, and cross_entropy"));
  recipes::Recipe other = number_recipe();
  other.evaluation->data = numbers(50, 1);
  EXPECT_THAT(refusal_of(other), HasSubstr("evaluate.data: a sample has 1 number, and one of the "
                                           "training data has 2 numbers"));
  other.evaluation->data = small_recipe().evaluation->data;
  EXPECT_THAT(refusal_of(other), HasSubstr("evaluate.data: the targets are classes"));
  recipes::Recipe narrow = small_recipe();
  narrow.model.parameters["classes"] = 1;
  EXPECT_THAT(refusal_of(narrow), HasSubstr("one output"));
}

TEST(TagLoss, IsPyTorchs) {
  const at::Tensor logits = at::tensor(std::vector<float>{0.0F, 2.0F}).view({1, 2});
  const at::Tensor tags = at::tensor(std::vector<float>{1.0F, 0.0F}).view({1, 2});
  const double of_first = std::log(2.0);
  const double of_second = std::log(1 + std::exp(2.0));
  EXPECT_NEAR(loss_of(Loss::bce, logits, tags).item<double>(), (of_first + of_second) / 2, 1e-6);
  LossOptions options;
  options.pos_weight = at::tensor(std::vector<float>{3.0F, 5.0F});
  EXPECT_NEAR(loss_of(Loss::bce, logits, tags, options).item<double>(),
              (3 * of_first + of_second) / 2, 1e-6);
  const auto read = [](const Json& weights) {
    return loss_options_from({{"pos_weight", weights}}, 2, at::kCPU);
  };
  EXPECT_EQ(value_of(read(3.5)).pos_weight.item<float>(), 3.5F);
  EXPECT_EQ(value_of(read(Json::array({1, 2}))).pos_weight.numel(), 2);
  EXPECT_FALSE(read(Json::array({1, 2, 3})));
}

TEST(TestTags, AreThoseOfAPlainCount) {
  constexpr std::int64_t kSamples = 70;
  at::manual_seed(2);
  const at::Tensor logits = at::randn({kSamples, 4});
  at::Tensor tags = at::randn({kSamples, 4}).gt(0.3).to(at::kFloat);
  tags.select(1, 3).fill_(0);
  logits.select(1, 3).fill_(-1);
  TestTags counts;
  counts.add(logits.narrow(0, 0, 40), tags.narrow(0, 0, 40));
  counts.add(logits.narrow(0, 40, 30), tags.narrow(0, 40, 30));
  TestResult result;
  result.samples = kSamples;
  counts.tell(result);
  ASSERT_TRUE(result.tags);
  double both = 0;
  double wrong = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    for (std::int64_t k = 0; k < 4; ++k) {
      const bool found = logits[i][k].item<float>() > 0;
      const bool there = tags[i][k].item<float>() == 1.0F;
      both += found && there ? 1 : 0;
      wrong += found != there ? 1 : 0;
    }
  }
  ASSERT_TRUE(result.tags->all.f1());
  EXPECT_DOUBLE_EQ(*result.tags->all.f1(), 2 * both / (2 * both + wrong));
  const Json json = test_json(result);
  EXPECT_TRUE(json.at("test_accuracy").is_null());
  EXPECT_EQ(json.at("test_f1"), *result.tags->all.f1());
  EXPECT_TRUE(json.at("test_tags").at(3).at("f1").is_null());
  EXPECT_EQ(evaluation_frame(result, 1).at("f1"), json.at("test_f1"));
}

recipes::Recipe tag_recipe() {
  recipes::Recipe recipe = number_recipe("bce");
  const auto tags = [](std::int64_t samples) {
    return recipes::Component{"synthetic_tags",
                              {{"samples", samples}, {"shape", {1, 8, 8}}, {"tags", 2}}};
  };
  recipe.data = tags(1000);
  recipe.evaluation = recipes::Evaluation{.data = tags(50), .best_by = "f1"};
  return recipe;
}

TEST(TagJob, LearnsThem) {
  const auto job = load(tag_recipe());
  ASSERT_NE(job, nullptr);
  const Folder folder;
  const auto summary = train(
      *job, {.checkpoint_path = folder / "c"}, [](const Json&) {}, never);
  ASSERT_TRUE(summary) << summary.error().message();
  ASSERT_TRUE(summary->test && summary->test->tags && summary->test->tags->all.f1());
  EXPECT_GT(*summary->test->tags->all.f1(), 0.7);
  recipes::Recipe other = tag_recipe();
  other.evaluation->data = numbers(50, 2);
  EXPECT_THAT(refusal_of(other), HasSubstr("evaluate.data: the targets are numbers, and those of "
                                           "the training data are tags"));
}

TEST(BestByTarget, GoesByTheFiguresOfNumbers) {
  const auto of = [](double mae, std::optional<double> r2) {
    TestResult result{.samples = 9, .loss = 1.0};
    result.numbers = NumberFigures{.mae = mae, .r2 = r2, .values = {}};
    return result;
  };
  recipes::Evaluation rules{.best_by = "mae"};
  BestEvaluation by_error(rules);
  EXPECT_TRUE(by_error.take(of(2.0, 0.1), 1));
  EXPECT_FALSE(by_error.take(of(3.0, 0.9), 2));
  EXPECT_TRUE(by_error.take(of(1.0, 0.0), 3));
  rules.best_by = "r2";
  BestEvaluation by_share(rules);
  EXPECT_FALSE(by_share.take(of(1.0, std::nullopt), 1));
  EXPECT_TRUE(by_share.take(of(1.0, -2.0), 2));
  EXPECT_TRUE(by_share.take(of(3.0, 0.5), 3));
  EXPECT_FALSE(by_share.take(of(0.0, 0.4), 4));
}

}  // namespace
}  // namespace autotuned::trainer
