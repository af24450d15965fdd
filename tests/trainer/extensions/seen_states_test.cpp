// SPDX-License-Identifier: Apache-2.0
// What an extension leaves of the state in which operators compute, and of buffers, seen in the step itself.
#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "base/json.hpp"
#include "tests/trainer/plugin_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr const char* kDoes = "states.does";
constexpr const char* kRounds = "states.rounds";
constexpr const char* kAnotherJob = "states.another_job";
constexpr int kStepsOfABlock = 6;

// With a model of a user, which moves a buffer in each step.
class SeenStatesTest : public testing::Test {
 protected:
  SeenStatesTest() {
    recipes::Recipe recipe = small_recipe();
    recipe.file = "/jobs/tiny.yaml";
    recipe.model = {"plugin", {{"plugin", "tiny"}, {"parameters", Json::object()}, {"line", 3}}};
    start_ = starting(recipe);
    job_ = value_of(Job::load(recipe, start_, test_machine(), cpu_only(),
                              {fixture("tiny"), fixture("states")}));
  }

  // Why some steps end, or why the knob is refused; empty: they do not.
  std::string end_of(const Configuration& configuration) {
    if (const auto turned = job_->prepare(configuration); !turned) return turned.error().message();
    const auto block = job_->run_steps(kStepsOfABlock, never);
    return block ? "" : block.error().message();
  }

  Configuration start_;
  std::unique_ptr<Job> job_;
};

struct SeenState {
  const char* does;
  const char* said;
};

class SeenStates : public SeenStatesTest, public testing::WithParamInterface<SeenState> {};

TEST_P(SeenStates, EndTheSteps) {
  ASSERT_NE(job_, nullptr);
  EXPECT_THAT(end_of(with(start_, kDoes, GetParam().does)), HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    States, SeenStates,
    testing::Values(
        SeenState{"turns_autocast_on",
                  "plugin states: on_batch: changes autocast of the CPU from off to on (bf16) in "
                  "step 1"},
        SeenState{"records_no_gradients",
                  "plugin states: on_batch: changes the recording of gradients from on to off in "
                  "step 1"},
        SeenState{"chooses_in_step",
                  "plugin states: on_batch: changes oneDNN from on to off in step 1"},
        SeenState{"applies_callback", "plugin states: apply: changes the callbacks of operators"},
        SeenState{"applies_algorithms", "plugin states: apply: changes oneDNN from on to off"},
        SeenState{"adds_callback",
                  "plugin states: forward: changes the callbacks of operators in step 1"},
        SeenState{"adds_callback_in_backward",
                  "plugin states: between its hooks: changes the callbacks of operators in step 1"},
        SeenState{"fills_buffers", "plugin states: forward: changes buffer seen in step 4"},
        SeenState{"fills_before", "plugin states: forward: changes buffer seen in step 4"},
        SeenState{"fills_between_parts", "plugin states: forward: changes buffer seen in step 4"}),
    [](const auto& tested) { return std::string(tested.param.does); });

TEST_F(SeenStatesTest, WhatIsPutBackGoesOn) {
  ASSERT_NE(job_, nullptr);
  for (const char* does : {"guards", "puts_back"}) {
    EXPECT_EQ(end_of(with(with(start_, kDoes, does), kRounds, true)), "") << does;
  }
}

TEST_F(SeenStatesTest, WhoDeclaresThatItRoundsMayChooseAlgorithms) {
  ASSERT_NE(job_, nullptr);
  EXPECT_EQ(end_of(with(with(start_, kDoes, "applies_algorithms"), kRounds, true)), "");
  EXPECT_EQ(end_of(start_), "");
  EXPECT_THAT(end_of(with(with(start_, kDoes, "applies_callback"), kRounds, true)),
              HasSubstr("apply: changes the callbacks of operators"));
}

TEST_F(SeenStatesTest, WhatItHasChosenIsPutBackWhenItIsUndone) {
  ASSERT_NE(job_, nullptr);
  EXPECT_EQ(end_of(with(with(start_, kDoes, "forgets_algorithms"), kRounds, true)), "");
  EXPECT_THAT(end_of(start_), HasSubstr("plugin states: undo: changes oneDNN from on to off"));
}

TEST_F(SeenStatesTest, WhoDeclaresAnotherTrainingMayMakeIt) {
  ASSERT_NE(job_, nullptr);
  for (const char* does : {"turns_autocast_on", "adds_callback", "fills_buffers"}) {
    EXPECT_EQ(end_of(with(with(start_, kDoes, does), kAnotherJob, true)), "") << does;
  }
}

}  // namespace
}  // namespace autotuned::trainer
