// SPDX-License-Identifier: Apache-2.0
// Which looks a change of an extension's knob is given: from the state that was reached, with the initial moments, and
// in other processes.
#include <gmock/gmock.h>

#include <utility>

#include "tests/tuner/run_checks_scene.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(RunChecks, AnExtensionIsFirstCheckedFromWhatTheBlocksHaveLeft) {
  add_extension(recipes::RiskClass::numerics);
  auto checks = run(change("mine.skip", true));
  EXPECT_THAT(job_.looks,
              ElementsAre(CheckedSteps::reached, CheckedSteps::later, CheckedSteps::first));
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_THAT(checks[0].detail, HasSubstr("from the weights at the end of the blocks"));
  EXPECT_EQ(asked_[0].reference, input_.starting);
  EXPECT_EQ(asked_[0].candidate, incumbent_.with(change("mine.skip", true)));
  // Kept, it is in what other numerics are compared with the start.
  incumbent_.set("mine.skip", true);
  job_.looks.clear();
  run(change("precision.autocast", std::string("bf16")));
  EXPECT_THAT(job_.looks,
              ElementsAre(CheckedSteps::reached, CheckedSteps::later, CheckedSteps::first));
  // An exact change is compared with the incumbent, which has it, too.
  job_.looks.clear();
  run(change("loader.workers", std::int64_t{2}));
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::later, CheckedSteps::first));
}

TEST_F(RunChecks, AnExtensionThatFailsThereGetsNoOtherLook) {
  add_extension(recipes::RiskClass::numerics);
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.equal = false;
    updates.parameters[0].norm_ratio = 0.1;
    return updates;
  };
  const auto checks = run(change("mine.skip", true));
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::reached));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("from the weights at the end of the blocks"));
}

TEST_F(RunChecks, AnExactExtensionIsComparedThereWithTheIncumbent) {
  add_extension(recipes::RiskClass::exact);
  input_.recipe.tune.allow = {};
  Configuration both = change("mine.skip", true);
  both.set("batch_size", std::int64_t{64});
  auto checks = run(both);
  EXPECT_EQ(asked_[0].reference, incumbent_.with(change("batch_size", std::int64_t{64})));
  EXPECT_EQ(asked_[0].candidate, incumbent_.with(both));
  EXPECT_EQ(checks[0].risk, "exact");
  is_equal_ = false;
  checks = run(change("mine.skip", true));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
}

// The candidate's process has made the moments so large that no configuration moves from there.
TEST_F(RunChecks, MomentsThatHideGradientsAreSeenWithTheInitialOnes) {
  add_extension(recipes::RiskClass::numerics);
  double renewed_ratio = 0.0;
  job_.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    if (job_.looks.back() != CheckedSteps::reached) return updates;
    UpdateComparison renewed = updates;
    updates.parameters[0].reference_norm = 0.0;
    renewed.equal = false;
    renewed.parameters[0].norm_ratio = renewed_ratio;
    // A new start of the optimizer may move far.
    renewed.candidate_losses.assign(static_cast<std::size_t>(steps), 1.0);
    updates.renewed.push_back(renewed);
    return updates;
  };
  auto checks = run(change("mine.skip", true));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("with the optimizer's initial moments: the update of "
                                          "weight is 0.000 times as long"));
  EXPECT_THAT(checks[0].detail, HasSubstr("from the weights at the end of the blocks"));
  EXPECT_FALSE(
      check_trained(input_, job_, input_.starting.with(change("mine.skip", true)))->passed);
  renewed_ratio = 1.0;
  checks = run(change("mine.skip", true));
  EXPECT_TRUE(checks.back().passed) << checks.back().detail;
}

// Rounding alone may change such steps as much.
TEST_F(RunChecks, StepsWithTheInitialMomentsAreHeldAgainstWhatTheJobDoesByItself) {
  add_extension(recipes::RiskClass::numerics);
  const auto with_renewed = [](std::int64_t steps, double cosine) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    UpdateComparison renewed = updates;
    renewed.equal = false;
    renewed.parameters[0].cosine = cosine;
    updates.renewed.push_back(renewed);
    return updates;
  };
  job_.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    return job_.looks.back() == CheckedSteps::reached ? with_renewed(steps, 0.5)
                                                      : SimulatedBackend::equal(steps);
  };
  double own = 0.6;
  job_.rounded_updates = [&](const Configuration&, std::int64_t steps) {
    return with_renewed(steps, own);
  };
  EXPECT_TRUE(run(change("mine.skip", true)).front().passed);
  own = 0.9;
  EXPECT_FALSE(run(change("mine.skip", true)).front().passed);
}

TEST_F(RunChecks, ExactStepsWithTheInitialMomentsAreHeldAgainstTheDevicesOwn) {
  add_extension(recipes::RiskClass::exact);
  input_.recipe.tune.allow = {};
  input_.job_facts["device"] = "cuda:0";
  double ratio = 1.02;
  job_.updates = [&](const Configuration& reference, const Configuration& candidate,
                     std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    if (job_.looks.back() != CheckedSteps::reached) return updates;
    UpdateComparison renewed = updates;
    renewed.equal = false;
    renewed.parameters[0].norm_ratio = reference == candidate ? 1.01 : ratio;
    updates.renewed.push_back(renewed);
    return updates;
  };
  EXPECT_TRUE(run(change("mine.skip", true)).front().passed);
  ratio = 1.1;
  const auto checks = run(change("mine.skip", true));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("with the optimizer's initial moments: two runs"));
}

// The process that was measured has another job by design, and none without it has reached its state.
TEST_F(RunChecks, AnExtensionBesideAnotherJobIsCheckedInAProcessWithoutThat) {
  add_extension(recipes::RiskClass::numerics);
  recipes::Knob job = input_.knobs.back();
  job.name = "mine.job";
  job.risk = recipes::RiskClass::semantics;
  input_.knobs.push_back(job);
  input_.extension_knobs.push_back(job.name);
  input_.starting.set(job.name, false);
  incumbent_.set(job.name, false);
  job_.restart_knobs = {job.name};
  Configuration both = change("mine.skip", true);
  both.set(job.name, true);
  const Configuration candidate = incumbent_.with(both);
  const Configuration whole = incumbent_.with(change("mine.skip", true));
  auto checks = run(both);
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::later, CheckedSteps::first,
                                      CheckedSteps::reached, CheckedSteps::first))
      << "the process that was measured may have to leave for the other";
  ASSERT_EQ(job_.moves.size(), 2U);
  EXPECT_EQ(job_.moves[0], std::pair(std::string("keep"), candidate));
  EXPECT_EQ(job_.moves[1], std::pair(std::string("take"), whole));
  ASSERT_EQ(asked_.size(), 4U);
  EXPECT_EQ(asked_[2].reference, input_.starting);
  EXPECT_EQ(asked_[2].candidate, whole);
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_THAT(checks[1].detail, HasSubstr("from the weights at the end of the blocks"));

  job_.looks.clear();
  job_.updates = [this](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    if (job_.looks.back() == CheckedSteps::reached) updates.parameters[0].norm_ratio = 0.1;
    return updates;
  };
  checks = run(both);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_FALSE(checks.back().passed);
  // So after a training.
  job_.moves.clear();
  const auto trained = check_trained(input_, job_, input_.starting.with(both));
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_FALSE(trained->passed);
  EXPECT_EQ(job_.moves.size(), 2U);
}

// "Exact" is not held to the limits of numerics where the device does not repeat itself: only its own differences count.
// The trainer that compares must not have the code of an extension, which could speak for the other one.
TEST_F(RunChecks, AnExtensionBesideAnotherIsComparedThereWithTheStart) {
  add_extension(recipes::RiskClass::exact);
  recipes::Knob knob = input_.knobs.back();
  knob.name = "other.skip";
  input_.knobs.push_back(knob);
  input_.extension_knobs.push_back(knob.name);
  input_.starting.set(knob.name, false);
  incumbent_.set(knob.name, false);
  incumbent_.set("mine.skip", true);
  const auto checks = run(change("other.skip", true));
  EXPECT_THAT(job_.looks,
              ElementsAre(CheckedSteps::reached, CheckedSteps::later, CheckedSteps::first));
  EXPECT_EQ(asked_[0].reference, input_.starting);
  EXPECT_EQ(asked_[0].candidate, incumbent_.with(change("other.skip", true)));
  EXPECT_EQ(asked_[1].reference, incumbent_);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_TRUE(checks[1].passed);
}

TEST_F(RunChecks, AnExactExtensionIsComparedThereWithTheDevicesOwnDifferences) {
  add_extension(recipes::RiskClass::exact);
  input_.recipe.tune.allow = {};
  input_.job_facts["device"] = "cuda:0";
  double candidate_ratio = 1.02;
  double own_ratio = 1.01;
  job_.updates = [&](const Configuration& reference, const Configuration& candidate,
                     std::int64_t steps) {
    asked_.push_back({reference, candidate, steps});
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.parameters[0].norm_ratio = reference == candidate ? own_ratio : candidate_ratio;
    updates.equal = updates.parameters[0].norm_ratio == 1.0;
    return updates;
  };
  job_.rounded_updates = [](const Configuration&, std::int64_t steps) {
    ADD_FAILURE() << "how far rounding leads the job astray does not matter";
    return SimulatedBackend::equal(steps);
  };
  auto checks = run(change("mine.skip", true));
  EXPECT_TRUE(checks.back().passed) << checks.back().detail;
  ASSERT_GE(asked_.size(), 2U);
  EXPECT_EQ(asked_[0].candidate, incumbent_.with(change("mine.skip", true)));
  EXPECT_EQ(asked_[1].reference, incumbent_);
  EXPECT_EQ(asked_[1].candidate, incumbent_);
  ASSERT_GE(job_.looks.size(), 2U);
  EXPECT_EQ(job_.looks[0], CheckedSteps::reached);
  EXPECT_EQ(job_.looks[1], CheckedSteps::reached);
  EXPECT_EQ(checks[0].risk, "exact");
  EXPECT_THAT(checks[0].detail, HasSubstr("two runs of one configuration differ"));

  // A cheat that begins late is seen from there alone. The limits of the numerics would let it pass.
  candidate_ratio = 1.1;
  job_.looks.clear();
  checks = run(change("mine.skip", true));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("the update of weight differs by 0.1 of its length"));
  EXPECT_THAT(checks[0].detail, HasSubstr("from the weights at the end of the blocks"));
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::reached, CheckedSteps::reached));
  const Configuration best = input_.starting.with(change("mine.skip", true));
  EXPECT_FALSE(check_trained(input_, job_, best)->passed);

  // A device that does repeat itself is held to its bits.
  candidate_ratio = 1.02;
  own_ratio = 1.0;
  checks = run(change("mine.skip", true));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);

  // With permission the limits of numerics apply.
  job_.rounded_updates = [](const Configuration&, std::int64_t steps) {
    return SimulatedBackend::equal(steps);
  };
  input_.recipe.tune.allow = {"numerics"};
  candidate_ratio = 1.04;
  checks = run(change("mine.skip", true));
  EXPECT_TRUE(checks[0].passed) << checks[0].detail;
  EXPECT_EQ(checks[0].risk, "numerics");
  candidate_ratio = 1.12;
  EXPECT_FALSE(run(change("mine.skip", true)).front().passed) << "those of an extension";
}

}  // namespace
}  // namespace autotuned::tuner
