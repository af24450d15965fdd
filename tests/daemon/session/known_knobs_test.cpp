// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/known_knobs.hpp"

#include <gmock/gmock.h>

#include "base/machine/machine.hpp"
#include "daemon/report/training_fallback.hpp"
#include "tests/daemon/queue/submission_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A run from when the extension tricks was there.
class KnownKnobs : public testing::Test {
 protected:
  KnownKnobs() {
    recipe_ = sample_submission().session.recipe;
    run_.recipe = recipe_.to_json();
    run_.starting = recipe_.starting_configuration(knobs_);
    run_.starting.set("tricks.trick", std::string("none"));
  }

  std::vector<recipes::Knob> knobs_ = recipes::knobs_of(Machine{});
  recipes::Recipe recipe_;
  storage::RunRow run_;
};

TEST_F(KnownKnobs, TrialsOfAGoneKnobAreLeftOut) {
  TrialRecord trial;
  trial.reference = run_.starting;
  trial.change.set("tricks.trick", std::string("hurries"));
  const Configuration start = recipe_.starting_configuration(knobs_);
  EXPECT_FALSE(known_trial(knobs_, start, trial));
  trial.change = {};
  trial.change.set("loader.workers", std::int64_t{1});
  trial.reference.set("tricks.trick", std::string("hurries"));
  const auto known = known_trial(knobs_, start, trial);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->reference, start);
  EXPECT_EQ(known->change, trial.change);
}

TEST_F(KnownKnobs, ARememberedBestIsUsedAsFarAsItIsKnown) {
  const Configuration start = recipe_.starting_configuration(knobs_);
  EXPECT_EQ(known_best(knobs_, start, start), start) << "nothing faster was found";
  Configuration best = start;
  best.set("tricks.trick", std::string("hurries"));
  EXPECT_EQ(known_best(knobs_, start, best), std::nullopt);
  best.set("loader.workers", std::int64_t{1});
  Configuration expected = start;
  expected.set("loader.workers", std::int64_t{1});
  EXPECT_EQ(known_best(knobs_, start, best), expected);
}

// A training that goes on with fewer CPUs.
TEST_F(KnownKnobs, AValueThatThisMachineCannotHaveIsNamed) {
  Machine larger;
  larger.cpus_allowed = larger.physical_cores = 8;
  const std::vector<recipes::Knob> of_larger = recipes::knobs_of(larger);
  Configuration used = recipes::default_configuration(of_larger);
  ASSERT_EQ(used.integer("threads.intra_op"), 8);
  EXPECT_TRUE(check_values(of_larger, used, "r-1", "train anew"));
  const auto refused = check_values(knobs_, used, "r-1", "train anew");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "threads.intra_op");
  EXPECT_THAT(refused.error().what,
              testing::AllOf(HasSubstr("run r-1 uses the value 8"), HasSubstr("at most 1")));
  EXPECT_THAT(refused.error().remedy,
              testing::AllOf(HasSubstr("as many CPUs"), HasSubstr("or train anew")));
  used.set("threads.intra_op", std::int64_t{1});
  EXPECT_TRUE(check_values(knobs_, used, "r-1", "train anew"));
  used.set("tricks.trick", std::string("hurries"));
  EXPECT_TRUE(check_values(knobs_, used, "r-1", "train anew")) << "of a plugin that has gone";
}

TEST_F(KnownKnobs, ARunThatNeverTurnedTheKnobIsToldNothing) {
  run_.best = run_.starting;
  run_.best.set("loader.workers", std::int64_t{1});
  EXPECT_THAT(drop_unknown_knobs(knobs_, recipe_, {}, run_), testing::IsEmpty());
  EXPECT_EQ(run_.starting, recipe_.starting_configuration(knobs_));
  EXPECT_EQ(run_.best.find("tricks.trick"), nullptr);
  EXPECT_EQ(run_.best.integer("loader.workers"), 1);
}

// After it fell back, a run trains with that configuration.
TEST_F(KnownKnobs, WhatTheTrainingFellBackToLosesTheKnob) {
  run_.best = run_.starting;
  run_.best.set("tricks.trick", std::string("hurries"));
  Configuration next = run_.starting;
  next.set("loader.workers", std::int64_t{1});
  add_fallback(next, {ErrorKind::out_of_memory, "full", "", ""}, 7, run_);
  (void)drop_unknown_knobs(knobs_, recipe_, {}, run_);
  Configuration expected = recipe_.starting_configuration(knobs_);
  expected.set("loader.workers", std::int64_t{1});
  EXPECT_EQ(trained_configuration(run_), expected);
}

TEST_F(KnownKnobs, AStartAndAKeptChangeThatAreGoneAreTold) {
  run_.recipe["start"]["tricks.trick"] = "counts";
  run_.starting.set("tricks.trick", std::string("counts"));
  run_.best = run_.starting;
  run_.best.set("tricks.trick", std::string("hurries"));
  EXPECT_THAT(drop_unknown_knobs(knobs_, recipe_, {}, run_),
              ElementsAre(HasSubstr("the start has tricks.trick=counts"),
                          HasSubstr("the kept change tricks.trick counts → hurries has gone")));
  EXPECT_EQ(run_.best, recipe_.starting_configuration(knobs_));
}

TEST_F(KnownKnobs, ANewRunIsToldOfAStartThatIsLeftOut) {
  run_.recipe["start"]["tricks.trick"] = "counts";
  run_.starting = recipe_.starting_configuration(knobs_);
  run_.best = {};
  EXPECT_THAT(drop_unknown_knobs(knobs_, recipe_, {}, run_),
              ElementsAre(HasSubstr("the start has tricks.trick=counts")));
  EXPECT_EQ(run_.starting, recipe_.starting_configuration(knobs_));
  EXPECT_TRUE(run_.best.empty());
}

TEST_F(KnownKnobs, AKeptTrialOfAGoneKnobIsTold) {
  TrialRecord trial;
  trial.number = 3;
  trial.verdict = Verdict::accepted;
  trial.reference = run_.starting;
  trial.change.set("tricks.trick", std::string("hurries"));
  TrialRecord rejected = trial;
  rejected.verdict = Verdict::rejected;
  EXPECT_THAT(
      drop_unknown_knobs(knobs_, recipe_, {trial, rejected}, run_),
      ElementsAre("trial 3, tricks.trick none → hurries, no longer counts: its knob has gone "
                  "with its plugin"));
}

TEST_F(KnownKnobs, AKnobThatTheRunLacksHasTheValueOfTheRecipe) {
  run_.starting = {};
  run_.starting.set("loader.workers", std::int64_t{2});
  EXPECT_THAT(drop_unknown_knobs(knobs_, recipe_, {}, run_), testing::IsEmpty());
  Configuration expected = recipe_.starting_configuration(knobs_);
  expected.set("loader.workers", std::int64_t{2});
  EXPECT_EQ(run_.starting, expected);
}

}  // namespace
}  // namespace autotuned::daemon
