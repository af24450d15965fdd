// SPDX-License-Identifier: Apache-2.0
// What an extension does to the batch of a step and to the weights, seen in the step itself.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "tests/trainer/plugin_job.hpp"
#include "trainer/common/plugin_call.hpp"
#include "trainer/extensions/extensions.hpp"
#include "trainer/job/training.hpp"
#include "trainer/models/model.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kCheat = "cheats.cheat";
constexpr int kSteps = 200;

class SeenInStepsTest : public PluginJobTest {
 protected:
  SeenInStepsTest() : PluginJobTest("cheats", kCheat, "AUTOTUNED_TEST_CHEATS") {}

  // Why some steps under a cheat end; empty: they do not.
  std::string end_of(const std::string& cheat) {
    value_of(turn(cheat));
    const auto block = job_->run_steps(kSteps, never);
    return block ? "" : block.error().message();
  }
};

TEST_F(SeenInStepsTest, WhatTrainsTheSameSamplesGoesOn) {
  for (const char* cheat : {"honest", "copies_batch", "rounds_images", "splits_batch", "recomputes",
                            "recomputes_parts"}) {
    EXPECT_EQ(end_of(cheat), "") << cheat;
  }
}

// As activation checkpointing does: without gradients first, and with them in the backward pass.
TEST_F(SeenInStepsTest, AForwardThatIsComputedTwiceTrainsTheSame) {
  const auto make_steps = [this](const std::string& cheat, const std::string& name) {
    value_of(turn(cheat));
    EXPECT_TRUE(job_->restore("initial"));
    const CheckedSteps checked = value_of(job_->check_steps({.steps = 3}, never));
    value_of(job_->keep(name));
    return checked;
  };
  const CheckedSteps honest = make_steps("honest", "reference");
  const CheckedSteps twice = make_steps("recomputes", "candidate");
  EXPECT_TRUE(value_of(job_->compare("initial", "reference", "candidate")).is_equal);
  ASSERT_EQ(twice.inputs.size(), honest.inputs.size());
  for (std::size_t i = 0; i < honest.inputs.size(); ++i) {
    EXPECT_EQ(twice.inputs[i].images, honest.inputs[i].images);
    EXPECT_EQ(twice.inputs[i].projections, honest.inputs[i].projections);
  }
}

// Gradients are added up over two parts of the batch, each with its own backward pass.
TEST_F(SeenInStepsTest, EachPartOfABatchGetsItsGradients) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.accumulate = 2;
  const Configuration start = starting(recipe);
  for (const char* cheat :
       {"honest", "splits_batch", "recomputes", "recomputes_parts", "detaches_rest"}) {
    const auto job = value_of(load_with(recipe, with(start, kCheat, cheat), "cheats"));
    ASSERT_NE(job, nullptr);
    const auto block = job->run_steps(30, never);
    if (std::string(cheat) != "detaches_rest") {
      EXPECT_TRUE(block) << cheat << ": " << block.error().message();
      continue;
    }
    ASSERT_FALSE(block);
    EXPECT_THAT(block.error().message(),
                HasSubstr("after its forward: 5 of 10 samples get no gradient in step 21"));
  }
}

// A check answers several batches, because an extension may answer the first one as the model does.
TEST_F(SeenInStepsTest, OtherAnswersThanTheFirstAreInWhatACheckKeeps) {
  const auto make_steps = [this](const std::string& cheat, const std::string& name) {
    value_of(turn(cheat));
    EXPECT_TRUE(job_->restore("initial"));
    value_of(job_->check_steps({.steps = 1, .keeps_outputs_before = true}, never));
    value_of(job_->keep(name));
  };
  make_steps("none", "reference");
  make_steps("honest", "honest");
  make_steps("evaluates_wrongly", "candidate");
  const Comparison honest = value_of(job_->compare("initial", "reference", "honest"));
  ASSERT_TRUE(honest.outputs);
  EXPECT_GT(honest.outputs->reference_change, 0.0);
  EXPECT_EQ(honest.outputs->difference, 0.0);
  const Comparison wrong = value_of(job_->compare("initial", "reference", "candidate"));
  ASSERT_TRUE(wrong.outputs);
  EXPECT_GT(wrong.outputs->difference, 0.0);
  EXPECT_FALSE(wrong.is_equal);
}

struct SeenCheat {
  const char* cheat;
  const char* said;
};

class SeenCheats : public SeenInStepsTest, public testing::WithParamInterface<SeenCheat> {};

TEST_P(SeenCheats, EndTheSteps) {
  EXPECT_THAT(end_of(GetParam().cheat), HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Cheats, SeenCheats,
    // The first one is as honest as can be after each pause, and after each change of the weights by others.
    testing::Values(
        SeenCheat{"skips_samples_between_checks",
                  "plugin cheats: on_batch: leaves 10 samples instead of 20 in step "},
        SeenCheat{"crops_in_place",
                  "plugin cheats: on_batch: leaves 10 samples instead of 20 in step 21"},
        SeenCheat{"shows_half",
                  "plugin cheats: forward: shows the model 10 samples instead of 20 in step 1"},
        SeenCheat{"crops_images",
                  "plugin cheats: on_batch: leaves images of another size in step 1"},
        SeenCheat{"blanks_images", "plugin cheats: on_batch: leaves other images in step 1"},
        SeenCheat{"blanks_in_place", "plugin cheats: on_batch: leaves other images in step 1"},
        // The labels of the next batches may happen to be the same.
        SeenCheat{"repeats_batch", "plugin cheats: on_batch: leaves other labels in step 2"},
        SeenCheat{"relabels_in_place", "plugin cheats: on_batch: leaves other labels in step 1"},
        SeenCheat{"halves_weights",
                  "plugin cheats: after_step: changes parameter hidden.weight in step 97"},
        SeenCheat{"writes_weights", "plugin cheats: on_batch: changes parameter "},
        SeenCheat{"halves_in_forward",
                  "plugin cheats: forward: changes parameter hidden.weight in step 21"},
        SeenCheat{"halves_in_backward",
                  "plugin cheats: between its hooks: changes parameter hidden.weight in step 21"},
        SeenCheat{"relabels_in_forward",
                  "plugin cheats: between its hooks: leaves other labels in step 21"},
        SeenCheat{"blanks_in_forward",
                  "plugin cheats: between its hooks: leaves other images in step 21"},
        SeenCheat{"adds_gradients",
                  "plugin cheats: forward: changes the gradient of parameter hidden.weight in step "
                  "21"},
        SeenCheat{"evaluates_in_training",
                  "plugin cheats: forward: puts the model in evaluation mode in step 21"},
        SeenCheat{"evaluates_after_a_step",
                  "plugin cheats: after_step: puts the model in evaluation mode in step 21"},
        SeenCheat{"detaches_later",
                  "plugin cheats: after its forward: no parameter gets a gradient in step 21"},
        SeenCheat{"detaches_rest",
                  "plugin cheats: after its forward: 10 of 20 samples get no gradient in step 21"},
        SeenCheat{"leaves_out_gradients",
                  "plugin cheats: after its forward: 10 of 20 samples get no gradient in step 21"},
        SeenCheat{"freezes_later",
                  "plugin cheats: on_batch: freezes parameter hidden.weight in step 20"}),
    [](const auto& tested) { return std::string(tested.param.cheat); });

TEST_F(SeenInStepsTest, InTrainingToo) {
  value_of(turn("skips_samples_between_checks"));
  const auto stretch = job_->advance({.steps = kSteps}, never);
  ASSERT_FALSE(stretch);
  EXPECT_EQ(stretch.error().kind, ErrorKind::internal);
  EXPECT_THAT(stretch.error().extensions, testing::ElementsAre("cheats"));
  EXPECT_THAT(stretch.error().message(), HasSubstr("only a knob of risk semantics"));
}

TEST_F(SeenInStepsTest, AComparisonSaysThatStepsBeforeMayBeWrongToo) {
  value_of(turn("repeats_batch"));
  const auto stretch = job_->advance({.steps = kSteps}, never);
  ASSERT_FALSE(stretch);
  EXPECT_EQ(stretch.error().extension_fault, ExtensionFault::trained_otherwise);
}

// A hook of a tensor is called by LibTorch, where nothing names its plugin.
TEST_F(SeenInStepsTest, WhatFailsBetweenItsHooksMayBeItsFault) {
  value_of(turn("throws_in_backward"));
  const auto stretch = job_->advance({.steps = kSteps}, never);
  ASSERT_FALSE(stretch);
  EXPECT_EQ(stretch.error().kind, ErrorKind::internal);
  EXPECT_EQ(stretch.error().message(),
            "training step: boo in step 21, with plugin cheats on, which may be the cause");
  EXPECT_THAT(stretch.error().extensions, testing::ElementsAre("cheats"));
  EXPECT_EQ(stretch.error().extension_fault, ExtensionFault::suspected);
}

TEST_F(SeenInStepsTest, ALackOfMemoryInTheBackwardPassIsNotOfTheExtension) {
  value_of(turn("lacks_memory_in_backward"));
  const auto stretch = job_->advance({.steps = kSteps}, never);
  ASSERT_FALSE(stretch);
  EXPECT_EQ(stretch.error().kind, ErrorKind::out_of_memory);
  EXPECT_THAT(stretch.error().extensions, testing::IsEmpty());
}

// What it leaves is what would be saved.
TEST_F(SeenInStepsTest, InTheLastStepToo) {
  value_of(turn("empties_last"));
  const auto stretch = job_->advance({.steps = 20}, never);
  ASSERT_FALSE(stretch);
  EXPECT_THAT(stretch.error().message(),
              HasSubstr("after_step: changes parameter hidden.weight in step 20"));
}

// One number of a thousand, which a look at ten would hardly ever meet.
TEST_F(SeenInStepsTest, ASingleNumberInTheLastStepToo) {
  value_of(turn("writes_one_last"));
  const auto stretch = job_->advance({.steps = 20}, never);
  ASSERT_FALSE(stretch);
  EXPECT_THAT(stretch.error().message(),
              HasSubstr("after_step: changes parameter hidden.weight in step 20"));
}

TEST_F(SeenInStepsTest, ASingleNumberAtTheEndOfAnEpochToo) {
  value_of(turn("writes_one_last"));
  const StretchLimits limits{.steps = 30, .stops_at_epoch_end = true};
  EXPECT_EQ(value_of(job_->advance(limits, never)).steps, 10);
  const auto stretch = job_->advance(limits, never);
  ASSERT_FALSE(stretch);
  EXPECT_THAT(stretch.error().message(),
              HasSubstr("after_step: changes parameter hidden.weight in step 20"));
}

// The last checkpoint may still be written when the next step fails. A training goes on from it.
TEST_F(SeenInStepsTest, TheCheckpointBeforeIsReported) {
  value_of(job_->prepare(with(with(start_, kCheat, "writes_one_last"), "checkpoint.async", true)));
  std::int64_t step = 0;
  const ProgressSink sink = [&step](const Json& told) {
    if (const auto written = get_integer(member(told, "checkpoint"), "step")) step = *written;
  };
  const auto trained =
      train(*job_, {.checkpoint_path = folder_ / "c", .checkpoint_every_ns = 0}, sink, never);
  ASSERT_FALSE(trained);
  EXPECT_THAT(trained.error().message(), HasSubstr("in step 20"));
  EXPECT_EQ(step, 19);
  EXPECT_FALSE(job_->is_exporting());
}

// What a model of a user does in its own forward. Its batch comes in parts, so that another look follows.
TEST_F(SeenInStepsTest, WhatTheModelItselfDoesIsNotOfTheExtension) {
  for (const char* fault : {"writes_batch", "evaluates"}) {
    recipes::Recipe recipe = small_recipe();
    recipe.file = "/jobs/tiny.yaml";
    const Json parameters = {{"fault", fault}};
    recipe.model = {"plugin", {{"plugin", "tiny"}, {"parameters", parameters}, {"line", 3}}};
    recipe.step_rules.accumulate = 2;
    const Configuration start = starting(recipe);
    const auto job = value_of(
        Job::load(recipe, start, test_machine(), cpu_only(), {fixture("tiny"), fixture("cheats")}));
    ASSERT_NE(job, nullptr);
    for (const char* cheat : {"honest", "none"}) {
      value_of(job->prepare(with(start, kCheat, cheat)));
      value_of(job->run_steps(4, never));
    }
  }
}

// Gradients that are zeroed and not dropped are there before the backward pass.
TEST_F(SeenInStepsTest, GradientsAreSeenWhetherTheyAreDroppedOrZeroed) {
  for (const bool is_dropped : {false, true}) {
    const Configuration start = with(start_, "optimizer.set_to_none", is_dropped);
    for (const char* cheat : {"honest", "splits_batch"}) {
      value_of(job_->prepare(with(start, kCheat, cheat)));
      const auto block = job_->run_steps(3, never);
      EXPECT_TRUE(block) << cheat << ": " << block.error().message();
    }
    const auto job =
        value_of(load_with(small_recipe(), with(start, kCheat, "detaches_later"), "cheats"));
    ASSERT_NE(job, nullptr);
    const auto block = job->run_steps(kSteps, never);
    ASSERT_FALSE(block) << is_dropped;
    EXPECT_THAT(block.error().message(), HasSubstr("no parameter gets a gradient in step 21"));
  }
}

// The model is given other tensors than on_batch() has left.
TEST_F(SeenInStepsTest, MixedBatchesAreSeenToo) {
  recipes::Recipe recipe = small_recipe();
  recipe.step_rules.mixup_alpha = 0.4;
  const auto job =
      value_of(load_with(recipe, with(starting(recipe), kCheat, "blanks_in_forward"), "cheats"));
  ASSERT_NE(job, nullptr);
  const auto block = job->run_steps(kSteps, never);
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().message(),
              HasSubstr("between its hooks: leaves other images in step 21"));
}

// No comparison shows it: the model alone does not train the parameter either.
TEST_F(SeenInStepsTest, OnlyWhoDeclaresAnotherTrainingMayFreezeAParameter) {
  const auto applied = turn("freezes_at_the_start");
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message(),
              HasSubstr("plugin cheats: apply: hidden.weight is not trained any more"));
  const Configuration on =
      with(with(start_, kCheat, "freezes_at_the_start"), "cheats.another_job", true);
  const auto job = value_of(load_with(small_recipe(), on, "cheats"));
  ASSERT_NE(job, nullptr);
  value_of(job->run_steps(2, never));
  value_of(job->prepare(start_));
}

TEST_F(SeenInStepsTest, ModesAreLeftWhenItIsAppliedAndUndone) {
  const auto applied = turn("evaluates_from_the_start");
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message(),
              HasSubstr("plugin cheats: apply: leaves the model in evaluation mode"));
  const Configuration on = with(start_, kCheat, "evaluates_at_the_end");
  const auto job = value_of(load_with(small_recipe(), on, "cheats"));
  ASSERT_NE(job, nullptr);
  const auto undone = job->prepare(start_);
  ASSERT_FALSE(undone);
  EXPECT_THAT(undone.error().message(),
              HasSubstr("plugin cheats: undo: leaves the model in evaluation mode"));
}

// Others may have switched them meanwhile, but who declares that it switches modes must put them back.
TEST_F(SeenInStepsTest, ModesThatAreLeftAsTheyWereFoundAreNotOfWhoIsUndone) {
  const Configuration honest = with(start_, kCheat, "honest");
  for (const bool may_switch : {false, true}) {
    Extensions extensions(std::vector<plugins::TrainerLibrary>{fixture("cheats")});
    const std::unique_ptr<Learner> learner =
        value_of(Learner::create(small_recipe(), {1, 8, 8}, at::kCPU));
    ASSERT_NE(learner, nullptr);
    const auto part = learner->model().children().front();
    ASSERT_TRUE(extensions.configure(with(honest, "cheats.another_job", may_switch), *learner));
    part->eval();
    const auto undone = extensions.configure(start_, *learner);
    EXPECT_EQ(undone.has_value(), !may_switch);
  }
  Extensions extensions(std::vector<plugins::TrainerLibrary>{fixture("cheats")});
  const std::unique_ptr<Learner> learner =
      value_of(Learner::create(small_recipe(), {1, 8, 8}, at::kCPU));
  ASSERT_NE(learner, nullptr);
  const auto part = learner->model().children().front();
  part->eval();
  ASSERT_TRUE(extensions.configure(with(honest, "cheats.another_job", true), *learner));
  part->train();  // as an evaluation does
  EXPECT_TRUE(extensions.configure(start_, *learner));
}

TEST_F(SeenInStepsTest, WeightsAreLeftWhenItIsUndone) {
  value_of(turn("empties_in_undo"));
  value_of(job_->run_steps(2, never));
  const auto undone = turn("none");
  ASSERT_FALSE(undone);
  EXPECT_THAT(undone.error().message(),
              HasSubstr("plugin cheats: undo: changes parameter hidden.weight"));
}

TEST_F(SeenInStepsTest, AStepThatRanOutOfMemoryIsOver) {
  value_of(turn("runs_out_of_memory"));
  const auto block = job_->run_steps(kSteps, never);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::out_of_memory);
  value_of(job_->evaluate(never));
  value_of(job_->run_steps(3, never));
}

TEST_F(SeenInStepsTest, InAnEvaluationToo) {
  value_of(turn("halves_in_test"));
  const auto test = job_->evaluate(never);
  ASSERT_FALSE(test);
  EXPECT_THAT(test.error().message(),
              HasSubstr("forward: changes parameter hidden.weight outside of a step"));
}

TEST_F(SeenInStepsTest, InAnOperatorOfAnEvaluationToo) {
  value_of(turn("halves_in_relu"));
  value_of(job_->run_steps(2, never));
  const auto test = job_->evaluate(never);
  ASSERT_FALSE(test);
  EXPECT_THAT(test.error().message(),
              HasSubstr("between its hooks: changes parameter hidden.weight outside of a step"));
  EXPECT_THAT(test.error().extensions, testing::ElementsAre("cheats"));
}

TEST_F(SeenInStepsTest, TheLossIsTheStepsOwn) {
  value_of(turn("honest"));
  ASSERT_TRUE(job_->restore("initial"));
  const Block honest = value_of(job_->run_steps(3, never));
  value_of(turn("forges_loss"));
  ASSERT_TRUE(job_->restore("initial"));
  const Block forged = value_of(job_->run_steps(3, never));
  EXPECT_GT(honest.last_loss, 0.0);
  EXPECT_EQ(forged.last_loss, honest.last_loss);
}

DeviceBatch four_samples() {
  DeviceBatch batch;
  batch.images = at::ones({4, 1, 8, 8});
  batch.labels = at::zeros({4}, at::kLong);
  batch.samples = 4;
  return batch;
}

// The batch of the step may have been replaced meanwhile.
TEST_F(SeenInStepsTest, NothingOfAnAbandonedStepIsComparedAnyMore) {
  Extensions extensions(std::vector<plugins::TrainerLibrary>{fixture("cheats")});
  const std::unique_ptr<Learner> learner =
      value_of(Learner::create(small_recipe(), {1, 8, 8}, at::kCPU));
  ASSERT_NE(learner, nullptr);
  ASSERT_TRUE(extensions.configure(with(start_, kCheat, "honest"), *learner));
  const DeviceBatch batch = extensions.on_batch(four_samples(), 1);
  batch.labels.fill_(1);
  EXPECT_THAT([&] { (void)learner->score(batch); },
              testing::ThrowsMessage<PluginError>(HasSubstr("leaves other labels in step 1")));
  extensions.abandon_step();
  EXPECT_NO_THROW((void)learner->score(batch));
  extensions.check_weights();
}

// What comes after the hooks and before the weights are saved.
TEST_F(SeenInStepsTest, AllNumbersAreComparedBeforeTheyAreSaved) {
  Extensions extensions(std::vector<plugins::TrainerLibrary>{fixture("cheats")});
  const std::unique_ptr<Learner> learner =
      value_of(Learner::create(small_recipe(), {1, 8, 8}, at::kCPU));
  ASSERT_NE(learner, nullptr);
  ASSERT_TRUE(extensions.configure(with(start_, kCheat, "honest"), *learner));
  const at::Tensor loss = learner->step(extensions.on_batch(four_samples(), 1), 0.1);
  extensions.after_step(*learner, 1, loss, /*is_last=*/true);
  extensions.check_weights();
  static_cast<float*>(learner->model().parameters()[0].mutable_data_ptr())[17] = 3.0F;
  EXPECT_THAT([&] { extensions.check_weights(); },
              testing::ThrowsMessage<PluginError>(
                  HasSubstr("between its hooks: changes parameter hidden.weight after step 1")));
}

// Its threads may write at any time.
TEST_F(SeenInStepsTest, BetweenTwoStepsToo) {
  Extensions extensions(std::vector<plugins::TrainerLibrary>{fixture("cheats")});
  const std::unique_ptr<Learner> learner =
      value_of(Learner::create(small_recipe(), {1, 8, 8}, at::kCPU));
  ASSERT_NE(learner, nullptr);
  ASSERT_TRUE(extensions.configure(with(start_, kCheat, "honest"), *learner));
  const DeviceBatch batch = four_samples();
  const auto step = [&](std::int64_t number) {
    const at::Tensor loss = learner->step(extensions.on_batch(batch, number), 0.1);
    extensions.after_step(*learner, number, loss, /*is_last=*/false);
  };
  const Checkpoint initial = learner->capture();
  step(1);
  step(2);
  ASSERT_TRUE(learner->restore(initial));
  extensions.check_weights();  // this change is our own
  step(3);
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : learner->model().parameters())
      parameter.mul_(0.5);
  }
  EXPECT_THAT([&] { step(4); },
              testing::ThrowsMessage<PluginError>(
                  AllOf(HasSubstr("plugin cheats: between its hooks: changes parameter "),
                        HasSubstr(" after step 3"))));
}

TEST_F(SeenInStepsTest, WhoDeclaresAnotherTrainingMayMakeIt) {
  for (const char* cheat :
       {"skips_samples_between_checks", "shows_half", "blanks_images", "halves_weights",
        "evaluates_in_training", "detaches_later", "detaches_rest", "leaves_out_gradients"}) {
    value_of(job_->prepare(with(with(start_, kCheat, cheat), "cheats.another_job", true)));
    EXPECT_TRUE(job_->run_steps(kSteps, never)) << cheat;
  }
}

}  // namespace
}  // namespace autotuned::trainer
