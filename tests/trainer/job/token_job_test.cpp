// SPDX-License-Identifier: Apache-2.0
// Jobs on tokens: training, evaluation, knobs, checkpoints, and what does not go together.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include "tests/golden.hpp"
#include "tests/trainer/job/whole_training.hpp"
#include "trainer/answers.hpp"
#include "trainer/evaluation/test_figures.hpp"
#include "trainer/job/job_check.hpp"
#include "trainer/models/loss.hpp"
#include "trainer/state/checkpoint.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

recipes::Component made_up(std::int64_t samples) {
  return {"synthetic_tokens", {{"samples", samples}, {"context", 12}, {"vocabulary", 16}}};
}

// Ten steps in an epoch.
recipes::Recipe token_recipe() {
  recipes::Recipe recipe = small_token_recipe();
  recipe.optimizer = {"adamw",
                      {{"lr", 0.01}, {"betas", {0.9, 0.99}}, {"eps", 1e-8}, {"weight_decay", 0.0}}};
  return recipe;
}

std::string token_refusal_of(const recipes::Recipe& recipe) {
  const auto job = Job::load(recipe, starting(recipe), test_machine(), cpu_only());
  return job ? std::string() : job.error().message();
}

std::vector<std::string> problems_of(const recipes::Recipe& recipe) {
  const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  EXPECT_TRUE(found) << (found ? "" : found.error().message());
  std::vector<std::string> texts;
  if (!found) return texts;
  for (const RecipeProblem& problem : found->problems)
    texts.push_back(problem.key + ": " + problem.error.message());
  return texts;
}

TEST(TokenLoss, IsPyTorchsOverAllPositions) {
  at::manual_seed(1);
  const at::Tensor logits = at::randn({3, 5, 7});
  const at::Tensor tokens = at::randint(7, {3, 5}, at::kLong);
  double sum = 0.0;
  const at::Tensor logs = logits.to(at::kDouble).log_softmax(2);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t k = 0; k < 5; ++k)
      sum -= logs[i][k][tokens[i][k].item<std::int64_t>()].item<double>();
  }
  EXPECT_NEAR(loss_of(Loss::cross_entropy, logits, tokens).item<double>(), sum / 15, 1e-6);
  // As it is of as many samples.
  const LossOptions smoothed{.label_smoothing = 0.1};
  EXPECT_EQ(loss_of(Loss::cross_entropy, logits, tokens, smoothed).item<double>(),
            loss_of(Loss::cross_entropy, logits.view({15, 7}), tokens.view({15}), smoothed)
                .item<double>());
}

TEST(TokenJob, LearnsAndIsEvaluated) {
  recipes::Recipe recipe = token_recipe();
  recipe.data = made_up(1000);
  recipe.train.epochs = 3;
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().tokens_per_sample, 12);
  EXPECT_EQ(job->facts().classes, 16);
  EXPECT_EQ(job->facts().sample_shape, (std::vector<std::int64_t>{12}));
  EXPECT_EQ(to_json(job->facts()).at("tokens_per_sample"), 12);
  EXPECT_EQ(to_json(job->facts()).at("sample_dtype"), "int64");
  EXPECT_EQ(to_json(job->facts()).at("has_filters"), false);
  const TestResult before = value_of(job->evaluate(never));
  EXPECT_NEAR(before.loss, std::log(16.0), 0.1);
  EXPECT_EQ(before.samples, 30);
  const Folder folder;
  const auto [summary, steps, evaluations] = trained(*job, folder / "c");
  ASSERT_TRUE(summary.test && summary.test->tokens);
  const TestResult& test = *summary.test;
  // Three of four tokens follow from the one before.
  EXPECT_LT(test.loss, 0.7 * before.loss);
  EXPECT_GT(test.accuracy, 0.6);
  EXPECT_LE(test.accuracy, 1.0);
  EXPECT_DOUBLE_EQ(test.tokens->perplexity, std::exp(test.loss));
  EXPECT_FALSE(test.tokens->bits_per_byte);
  EXPECT_FALSE(test.top5_accuracy);
  const Json json = test_json(test);
  EXPECT_EQ(json.at("test_accuracy"), test.accuracy);
  EXPECT_EQ(json.at("test_perplexity"), test.tokens->perplexity);
  EXPECT_FALSE(json.contains("test_bits_per_byte"));
  ASSERT_EQ(evaluations.size(), 3U);
  EXPECT_EQ(evaluations.back().at("perplexity"), test.tokens->perplexity);
  ASSERT_FALSE(steps.empty());
  EXPECT_DOUBLE_EQ(steps.back().at("tokens_per_second").get<double>(),
                   12 * steps.back().at("samples_per_second").get<double>());
}

// What reaches a step is the same however it is loaded, and so is the training.
TEST(TokenJob, IsTheSameWhateverLoadsIt) {
  const recipes::Recipe recipe = token_recipe();
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(recipe);
  const CheckedSteps expected = checked_steps(*job, start, 12);
  ASSERT_EQ(expected.inputs.size(), 12U);
  EXPECT_NE(expected.inputs[0].images, expected.inputs[1].images);
  EXPECT_NE(expected.inputs[0].labels, expected.inputs[1].labels);
  for (const Configuration& other :
       {with(start, "loader.workers", std::int64_t{2}),
        with(with(start, "input.cache", "raw"), "loader.workers", std::int64_t{1}),
        with(start, "input.cache", "prefix"), with(start, "input.point_ops", "per_batch"),
        with(start, "layout.memory_format", "channels_last"),
        with(start, "optimizer.set_to_none", true),
        with(start, "input.read_ahead", std::int64_t{2})}) {
    const CheckedSteps found = checked_steps(*job, other, 12);
    expect_same_steps(found, expected);
    for (std::size_t i = 0; i < expected.inputs.size(); ++i)
      EXPECT_EQ(found.inputs[i].images, expected.inputs[i].images);
  }
  // The others round differently, or sum up in another order.
  for (const Configuration& other :
       {with(start, "precision.autocast", "bf16"), with(start, "optimizer.fused", true)}) {
    const CheckedSteps found = checked_steps(*job, other, 12);
    EXPECT_NEAR(found.block.losses.back(), expected.block.losses.back(), 0.05);
    EXPECT_EQ(found.inputs.back().labels, expected.inputs.back().labels);
  }
  const auto refused = job->prepare(with(start, "transfer.dtype", "uint8"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("the samples are tokens"));
}

TEST(TokenJob, HasTheRungsOfTheCeiling) {
  const auto job = load(token_recipe());
  ASSERT_NE(job, nullptr);
  for (const Reuse reuse : {Reuse::raw_bytes, Reuse::host_batch, Reuse::device_batch}) {
    const auto block = job->run({.minimum_steps = 3, .reuse = reuse}, never);
    ASSERT_TRUE(block) << block.error().message();
    EXPECT_EQ(block->samples, 60);
    EXPECT_TRUE(std::isfinite(block->last_loss));
  }
}

TEST(TokenJob, AccumulatesAndSplits) {
  recipes::Recipe recipe = token_recipe();
  recipe.evaluation = recipes::Evaluation{.data = {}, .split_ratio = 0.2, .best_by = "loss"};
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(value_of(job->evaluate(never)).samples, 40);
  const auto losses = value_of(job->run_steps(3, never)).losses;
  recipe.step_rules.accumulate = 2;
  recipe.step_rules.ema_decay = 0.9;
  const auto in_parts = load(recipe);
  const auto other = value_of(in_parts->run_steps(3, never)).losses;
  ASSERT_EQ(other.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(other[i], losses[i], 1e-4);
}

TEST(TokenJob, GoesOnBitForBit) {
  recipes::Recipe recipe = token_recipe();
  recipe.model.parameters["dropout"] = 0.25;
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  (void)value_of(job->run_steps(7, never));
  const Folder folder;
  ASSERT_TRUE(job->keep("here"));
  ASSERT_TRUE(job->export_to(folder / "here", "here", "note"));
  const auto losses = value_of(job->run_steps(6, never)).losses;  // into the second epoch
  const auto other = load(recipe);
  ASSERT_TRUE(other->import_from(folder / "here", "here"));
  ASSERT_TRUE(other->restore("here"));
  EXPECT_EQ(value_of(other->run_steps(6, never)).losses, losses);
  EXPECT_EQ(value_of(other->digest()), value_of(job->digest()));
}

// A text of bytes, with figures that only it has.
TEST(TokenJob, TrainsOnAText) {
  const Folder folder;
  {
    std::ofstream text(folder / "a.txt");
    for (int i = 0; i < 200; ++i)
      text << "to be, or not to be: ";
  }
  recipes::Recipe recipe = token_recipe();
  recipe.data = {"tokens", {{"files", (folder / "a.txt").string()}, {"context", 16}}};
  recipe.evaluation = recipes::Evaluation{.data = {}, .split_ratio = 0.1, .best_by = "loss"};
  EXPECT_THAT(problems_of(recipe), IsEmpty());
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().classes, 256);
  (void)value_of(job->run_steps(30, never));
  const TestResult test = value_of(job->evaluate(never));
  ASSERT_TRUE(test.tokens && test.tokens->bits_per_byte);
  EXPECT_DOUBLE_EQ(*test.tokens->bits_per_byte, test.loss / std::numbers::ln2);
  EXPECT_LT(*test.tokens->bits_per_byte, 6.0);
  EXPECT_EQ(evaluation_frame(test, 1).at("bits_per_byte"), *test.tokens->bits_per_byte);

  // What PyTorch's state_dict() of such a model holds: the tied parameter under both names.
  ASSERT_TRUE(job->save_model(folder / "model.pt"));
  const NamedTensors saved = value_of(read_model(folder / "model.pt"));
  std::vector<std::string> of_embedding;
  for (const auto& [name, tensor] : saved)
    if (tensor.size(0) == 256) of_embedding.push_back(name);
  EXPECT_THAT(of_embedding, UnorderedElementsAre("transformer.wte.weight", "lm_head.weight"));
  recipe.model.parameters["weights"] = (folder / "model.pt").string();
  const auto again = load(recipe);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(value_of(again->evaluate(never)).loss, test.loss);
}

TEST(TokenJob, HasTheVocabularyOfBothData) {
  recipes::Recipe recipe = token_recipe();
  recipe.evaluation->data.parameters["vocabulary"] = 17;
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().classes, 17);
  EXPECT_THAT(job->take_warnings(), IsEmpty());
}

TEST(TokenJob, DoubtsBytesBesideNumbersOfTokens) {
  const Folder folder;
  std::ofstream(folder / "a.txt") << "to be, or not to be: that is the question";
  const recipes::Component text = {"tokens",
                                   {{"files", (folder / "a.txt").string()}, {"context", 12}}};
  const auto warning_of = [](const recipes::Component& training, const recipes::Component& tests) {
    recipes::Recipe recipe = token_recipe();
    recipe.data = training;
    recipe.evaluation->data = tests;
    recipe.train.batch_size = 2;
    const auto job = load(recipe);
    const std::vector<Error> warnings =
        job != nullptr ? job->take_warnings() : std::vector<Error>();
    EXPECT_EQ(warnings.size(), 1U);
    return warnings.empty() ? std::string() : warnings.front().message();
  };
  tests::Cases cases;
  cases.add("numbers of tokens after bytes", warning_of(text, made_up(30)));
  cases.add("bytes after numbers of tokens", warning_of(made_up(30), text));
  tests::expect_golden("trainer/job/golden/token_warnings.txt", cases.text());
}

TEST(TokenJob, SaysWhatDoesNotFit) {
  tests::Cases cases;
  recipes::Recipe recipe = token_recipe();
  recipe.model = small_recipe().model;
  cases.add("a model of pictures", token_refusal_of(recipe));
  recipe = small_recipe();
  recipe.model = token_recipe().model;
  cases.add("a model of tokens with pictures", token_refusal_of(recipe));
  recipe = token_recipe();
  recipe.input = small_recipe().input;
  ASSERT_EQ(problems_of(recipe).size(), 1U);
  cases.add("a transform", problems_of(recipe).front());
  recipe = token_recipe();
  recipe.step_rules.mixup_alpha = 1.0;
  cases.add("mixed samples", token_refusal_of(recipe));
  recipe = token_recipe();
  recipe.loss = "mse";
  cases.add("a loss of numbers", token_refusal_of(recipe));
  recipe = token_recipe();
  recipe.model.parameters["vocabulary"] = 15;
  cases.add("a vocabulary that is too small", token_refusal_of(recipe));
  recipe = token_recipe();
  recipe.model.parameters["vocabulary"] = 16;
  recipe.evaluation->data.parameters["vocabulary"] = 17;
  cases.add("a larger vocabulary to test on", token_refusal_of(recipe));
  recipe = token_recipe();
  recipe.evaluation->data.parameters["context"] = 11;
  cases.add("other lengths to test on", token_refusal_of(recipe));
  recipe = token_recipe();
  recipe.model.parameters["context"] = 11;
  ASSERT_EQ(problems_of(recipe).size(), 1U);
  cases.add("shorter blocks", problems_of(recipe).front());
  tests::expect_golden("trainer/job/golden/tokens.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::trainer
