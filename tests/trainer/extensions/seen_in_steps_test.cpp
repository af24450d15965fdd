// SPDX-License-Identifier: Apache-2.0
// What an extension does to the batch of a step, seen in the step itself.
#include <gmock/gmock.h>

#include <string>

#include "tests/trainer/plugin_job.hpp"

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
  for (const char* cheat : {"honest", "copies_batch", "rounds_images", "splits_batch"})
    EXPECT_EQ(end_of(cheat), "") << cheat;
}

TEST_F(SeenInStepsTest, FewerSamplesThanTheLoaderGave) {
  // As honest as can be after each pause, and after each change of the weights by others.
  EXPECT_THAT(end_of("skips_samples_between_checks"),
              AllOf(HasSubstr("plugin cheats: on_batch: leaves 10 samples instead of 20"),
                    HasSubstr("only a knob of risk semantics")));
}

TEST_F(SeenInStepsTest, FewerSamplesInTheTensorsOfTheLoader) {
  EXPECT_THAT(end_of("crops_in_place"),
              HasSubstr("plugin cheats: on_batch: leaves 10 samples instead of 20"));
}

TEST_F(SeenInStepsTest, FewerSamplesInTheForwardPass) {
  EXPECT_THAT(end_of("shows_half"),
              HasSubstr("plugin cheats: forward: shows the model 10 samples instead of 20"));
}

TEST_F(SeenInStepsTest, SmallerImages) {
  EXPECT_THAT(end_of("crops_images"),
              HasSubstr("plugin cheats: on_batch: leaves images of another size"));
}

TEST_F(SeenInStepsTest, OtherImages) {
  EXPECT_THAT(end_of("blanks_images"), HasSubstr("plugin cheats: on_batch: leaves other images"));
}

TEST_F(SeenInStepsTest, OtherImagesInPlace) {
  EXPECT_THAT(end_of("blanks_in_place"), HasSubstr("plugin cheats: on_batch: leaves other images"));
}

TEST_F(SeenInStepsTest, OtherLabels) {
  EXPECT_THAT(end_of("repeats_batch"), HasSubstr("plugin cheats: on_batch: leaves other labels"));
}

TEST_F(SeenInStepsTest, OneOtherLabelInPlace) {
  EXPECT_THAT(end_of("relabels_in_place"),
              HasSubstr("plugin cheats: on_batch: leaves other labels"));
}

TEST_F(SeenInStepsTest, InTrainingToo) {
  value_of(turn("skips_samples_between_checks"));
  const auto stretch = job_->advance({.steps = kSteps}, never);
  ASSERT_FALSE(stretch);
  EXPECT_EQ(stretch.error().kind, ErrorKind::internal);
  EXPECT_THAT(stretch.error().message(), HasSubstr("leaves 10 samples instead of 20"));
}

TEST_F(SeenInStepsTest, WhoDeclaresAnotherTrainingMayMakeIt) {
  for (const char* cheat : {"skips_samples_between_checks", "shows_half", "blanks_images"}) {
    value_of(job_->prepare(with(with(start_, kCheat, cheat), "cheats.another_job", true)));
    EXPECT_TRUE(job_->run_steps(kSteps, never)) << cheat;
  }
}

}  // namespace
}  // namespace autotuned::trainer
