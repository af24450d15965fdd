// SPDX-License-Identifier: Apache-2.0
// What an extension computes in a step or an evaluation, compared with what the model computes by itself.
#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/trainer/plugin_job.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kCheat = "cheats.cheat";
constexpr const char* kSlightlyOther = "cheats.slightly_other";
constexpr const char* kNotTheModels =
    "plugin cheats: forward: the gradients are not those of the model's own forward (norm ";

// Why a stretch ends, the last step of which is repeated always; empty: it does not fail.
std::string end_of(Job& job, std::int64_t steps) {
  const auto stretch = job.advance({.steps = steps}, never);
  return stretch ? "" : stretch.error().message();
}

class RepeatedSteps : public PluginJobTest {
 protected:
  RepeatedSteps() : PluginJobTest("cheats", kCheat, "AUTOTUNED_TEST_CHEATS") {}

  static std::unique_ptr<Job> job_of(const recipes::Recipe& recipe, const std::string& cheat) {
    return value_of(load_with(recipe, with(starting(recipe), kCheat, cheat), "cheats"));
  }
};

TEST_F(RepeatedSteps, WhatTrainsTheSameGoesOn) {
  for (const int parts : {1, 2}) {
    for (const double mixup : {0.0, 0.4}) {
      recipes::Recipe recipe = small_recipe();
      recipe.step_rules.accumulate = parts;
      if (mixup > 0.0) recipe.step_rules.mixup_alpha = mixup;
      for (const char* cheat : {"honest", "copies_batch", "rounds_images", "rounds_inside",
                                "splits_batch", "recomputes", "recomputes_parts"}) {
        const auto job = job_of(recipe, cheat);
        ASSERT_NE(job, nullptr);
        EXPECT_EQ(end_of(*job, 3), "") << cheat << ", " << parts << " parts, mixup " << mixup;
        value_of(job->evaluate(never));
      }
    }
  }
}

TEST_F(RepeatedSteps, UnderEachPrecision) {
  for (const char* precision : {"bf16", "fp16"}) {
    for (const bool is_dropped : {false, true}) {
      const Configuration on = with(with(start_, "precision.autocast", std::string(precision)),
                                    "optimizer.set_to_none", is_dropped);
      value_of(job_->prepare(with(on, kCheat, "honest")));
      EXPECT_EQ(end_of(*job_, 2), "") << precision;
      value_of(job_->evaluate(never));
    }
  }
}

TEST_F(RepeatedSteps, OfATransformerWithDropout) {
  recipes::Recipe recipe = small_token_recipe();
  recipe.model.parameters["dropout"] = 0.2;
  for (const recipes::Recipe& one : {recipe, patch_dropout_recipe()}) {
    const auto job = job_of(one, "honest");
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(end_of(*job, 3), "");
    value_of(job->evaluate(never));
  }
}

// From its first step until it has learnt its few samples by heart, where gradients are small and consist of rounding for
// the most part.
TEST_F(RepeatedSteps, MayBeIn16BitsAllTheWay) {
  for (recipes::Recipe recipe :
       {small_recipe(), small_cnn_recipe(), patch_dropout_recipe(), small_token_recipe()}) {
    SCOPED_TRACE(recipe.model.type);
    recipe.data.parameters["samples"] = 40;
    recipe.optimizer = {
        "adamw", {{"lr", 0.003}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.01}}};
    const auto job = job_of(recipe, "computes_in_16_bits");
    ASSERT_NE(job, nullptr);
    for (int i = 0; i < 60; ++i)
      ASSERT_EQ(end_of(*job, 1), "") << i;
    value_of(job->evaluate(never));
  }
}

// A model of a user may write into its batch, and moves a buffer in each step.
TEST_F(RepeatedSteps, OfAModelOfAUser) {
  for (const char* fault : {"", "writes_batch", "evaluates"}) {
    recipes::Recipe recipe = small_recipe();
    recipe.file = "/jobs/tiny.yaml";
    const Json parameters = {{"fault", fault}};
    recipe.model = {"plugin", {{"plugin", "tiny"}, {"parameters", parameters}, {"line", 3}}};
    const Configuration start = starting(recipe);
    const auto job = value_of(
        Job::load(recipe, start, test_machine(), cpu_only(), {fixture("tiny"), fixture("cheats")}));
    ASSERT_NE(job, nullptr);
    value_of(job->prepare(with(start, kCheat, "honest")));
    EXPECT_EQ(end_of(*job, 3), "") << fault;
    value_of(job->prepare(with(start, kCheat, "frozen_buffers")));
    EXPECT_THAT(end_of(*job, 1),
                HasSubstr("plugin cheats: forward: changes buffer seen in step 4"));
  }
}

// By random numbers of its own. No two passes of it are alike.
TEST_F(RepeatedSteps, OfAModelThatDoesNotRepeatItselfSayNothing) {
  recipes::Recipe recipe = small_recipe();
  recipe.file = "/jobs/tiny.yaml";
  const Json parameters = {{"fault", "draws_by_itself"}};
  recipe.model = {"plugin", {{"plugin", "tiny"}, {"parameters", parameters}, {"line", 3}}};
  const Configuration start = starting(recipe);
  const auto job = value_of(
      Job::load(recipe, start, test_machine(), cpu_only(), {fixture("tiny"), fixture("cheats")}));
  ASSERT_NE(job, nullptr);
  value_of(job->prepare(with(start, kCheat, "honest")));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(end_of(*job, 1), "") << i;
  std::string told;
  for (const Error& warning : job->take_warnings())
    told += warning.message() + "\n";
  EXPECT_THAT(told, AllOf(HasSubstr("plugin cheats: a comparison with the model alone in step "),
                          HasSubstr("the model does not compute the same twice")));
  // Its answers are repeated.
  value_of(job->evaluate(never));
  value_of(job->prepare(with(start, kCheat, "evaluates_wrongly")));
  auto test = job->evaluate(never);
  if (test) test = job->evaluate(never);
  EXPECT_FALSE(test);
}

struct OtherStep {
  const char* cheat;
  std::int64_t step;
};

class OtherSteps : public RepeatedSteps, public testing::WithParamInterface<OtherStep> {};

TEST_P(OtherSteps, AreSeen) {
  const auto& [cheat, step] = GetParam();
  value_of(turn(cheat));
  const auto stretch = job_->advance({.steps = step}, never);
  ASSERT_FALSE(stretch);
  EXPECT_THAT(stretch.error().message(),
              AllOf(HasSubstr(kNotTheModels), HasSubstr("in step " + std::to_string(step)),
                    HasSubstr("only a knob of risk semantics")));
  EXPECT_EQ(stretch.error().kind, ErrorKind::internal);
  EXPECT_THAT(stretch.error().extensions, testing::ElementsAre("cheats"));
}

INSTANTIATE_TEST_SUITE_P(Cheats, OtherSteps,
                         testing::Values(OtherStep{"few_gradients", 21},
                                         OtherStep{"shows_others", 21},
                                         // By a hook of a parameter, in every second step.
                                         OtherStep{"skips_updates", 22}),
                         [](const auto& tested) { return std::string(tested.param.cheat); });

TEST_F(RepeatedSteps, OtherGradientsOfPartsAndOfMixedBatchesAreSeen) {
  recipes::Recipe parts = small_recipe();
  parts.step_rules.accumulate = 2;
  recipes::Recipe mixed = small_recipe();
  mixed.step_rules.mixup_alpha = 0.4;
  for (const recipes::Recipe& recipe : {parts, mixed}) {
    const auto job = job_of(recipe, "few_gradients");
    ASSERT_NE(job, nullptr);
    EXPECT_THAT(end_of(*job, 21), HasSubstr(kNotTheModels));
  }
}

// Whatever is evaluated or saved after it.
TEST_F(RepeatedSteps, AreAtTheEndOfAnEpochThatEndsAStretch) {
  value_of(turn("few_gradients"));
  std::string end;
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(end, "");
    const auto stretch = job_->advance({.steps = 100, .stops_at_epoch_end = true}, never);
    end = stretch ? "" : stretch.error().message();
  }
  EXPECT_THAT(end, HasSubstr(kNotTheModels));
}

// An extension can pretend it, so that nothing is compared.
TEST_F(RepeatedSteps, ALackOfMemoryForThemIsAFaultOnACpu) {
  value_of(turn("lacks_memory"));
  const std::string lacks = "plugin cheats: memory lacks for a comparison with the model alone";
  const auto stretch = job_->advance({.steps = 21}, never);
  ASSERT_FALSE(stretch);
  EXPECT_THAT(stretch.error().message(), HasSubstr(lacks + " in step 21"));
  EXPECT_EQ(stretch.error().kind, ErrorKind::internal);
  EXPECT_THAT(stretch.error().extensions, testing::ElementsAre("cheats"));
  const auto test = job_->evaluate(never);
  ASSERT_FALSE(test);
  EXPECT_THAT(test.error().message(), HasSubstr(lacks));
}

TEST_F(RepeatedSteps, AreInEachTraining) {
  recipes::Recipe recipe = small_recipe();
  recipe.train.epochs = 3;
  const auto job = job_of(recipe, "few_gradients");
  ASSERT_NE(job, nullptr);
  const auto trained = train(
      *job, {.checkpoint_path = folder_ / "c"}, [](const Json&) {}, never);
  ASSERT_FALSE(trained);
  EXPECT_THAT(trained.error().message(), HasSubstr(kNotTheModels));
}

TEST_F(RepeatedSteps, WhoDeclaresAnotherTrainingMayMakeIt) {
  for (const char* cheat : {"few_gradients", "shows_others"}) {
    value_of(job_->prepare(with(with(start_, kCheat, cheat), "cheats.another_job", true)));
    EXPECT_EQ(end_of(*job_, 25), "") << cheat;
  }
}

// Unless the recipe permits that it rounds.
TEST_F(RepeatedSteps, AnExactKnobIsHeldToTheBit) {
  for (const bool may_round : {false, true}) {
    recipes::Recipe recipe = small_recipe();
    if (may_round) recipe.tune.allow = {"numerics"};
    const auto job =
        value_of(load_with(recipe, with(starting(recipe), kSlightlyOther, true), "cheats"));
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(job->evaluate(never).has_value(), may_round);
    const std::string end = end_of(*job, 1);
    if (may_round) {
      EXPECT_EQ(end, "");
    } else {
      EXPECT_THAT(end, HasSubstr(kNotTheModels));
    }
  }
}

// Answers are wrong from the second batch after a step on: all of the second evaluation.
TEST_F(RepeatedSteps, OtherAnswersAreSeen) {
  value_of(turn("evaluates_wrongly"));
  auto test = job_->evaluate(never);
  if (test) test = job_->evaluate(never);
  ASSERT_FALSE(test);
  EXPECT_THAT(test.error().message(), HasSubstr("plugin cheats: forward: the answers in an "
                                                "evaluation are not those of the model's own"));
  EXPECT_THAT(test.error().extensions, testing::ElementsAre("cheats"));
}

}  // namespace
}  // namespace autotuned::trainer
