// SPDX-License-Identifier: Apache-2.0
// What an extension does to the batch of a step, seen in the step itself.
#include <gmock/gmock.h>

#include <string>

#include "tests/trainer/plugin_job.hpp"

namespace autotuned::trainer {
namespace {

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
  for (const char* cheat : {"honest", "copies_batch", "rounds_images", "splits_batch"})
    EXPECT_EQ(end_of(cheat), "") << cheat;
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
                  "plugin cheats: on_batch: leaves 10 samples instead of 20"},
        SeenCheat{"crops_in_place", "plugin cheats: on_batch: leaves 10 samples instead of 20"},
        SeenCheat{"shows_half", "plugin cheats: forward: shows the model 10 samples instead of 20"},
        SeenCheat{"crops_images", "plugin cheats: on_batch: leaves images of another size"},
        SeenCheat{"blanks_images", "plugin cheats: on_batch: leaves other images"},
        SeenCheat{"blanks_in_place", "plugin cheats: on_batch: leaves other images"},
        SeenCheat{"repeats_batch", "plugin cheats: on_batch: leaves other labels"},
        SeenCheat{"relabels_in_place", "plugin cheats: on_batch: leaves other labels"}),
    [](const auto& tested) { return std::string(tested.param.cheat); });

TEST_F(SeenInStepsTest, InTrainingToo) {
  value_of(turn("skips_samples_between_checks"));
  const auto stretch = job_->advance({.steps = kSteps}, never);
  ASSERT_FALSE(stretch);
  EXPECT_EQ(stretch.error().kind, ErrorKind::internal);
  EXPECT_THAT(stretch.error().message(), HasSubstr("only a knob of risk semantics"));
}

TEST_F(SeenInStepsTest, WhoDeclaresAnotherTrainingMayMakeIt) {
  for (const char* cheat : {"skips_samples_between_checks", "shows_half", "blanks_images"}) {
    value_of(job_->prepare(with(with(start_, kCheat, cheat), "cheats.another_job", true)));
    EXPECT_TRUE(job_->run_steps(kSteps, never)) << cheat;
  }
}

}  // namespace
}  // namespace autotuned::trainer
