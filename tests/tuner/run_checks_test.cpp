// SPDX-License-Identifier: Apache-2.0
// Which looks a change is given, and which rule judges them.
#include <gmock/gmock.h>

#include "tests/tuner/run_checks_scene.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(RunChecks, ExactIsComparedWithTheIncumbent) {
  const auto checks = run(change("loader.workers", std::int64_t{2}));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_TRUE(checks[0].passed);
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[0].reference, incumbent_);
  EXPECT_EQ(asked_[1].reference, incumbent_);
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::later, CheckedSteps::first))
      << "the process that was measured first: the other look may end it";
  EXPECT_EQ(checks[0].steps, 16);
}

TEST_F(RunChecks, NumericsAreComparedWithTheStart) {
  const auto checks = run(change("precision.autocast", std::string("bf16")));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].risk, "numerics");
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[0].steps, 8);
  EXPECT_EQ(asked_[1].steps, 1);
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::later, CheckedSteps::first));
  EXPECT_EQ(asked_[0].reference, input_.starting);
  EXPECT_TRUE(asked_[0].candidate.flag("optimizer.fused")) << "the whole candidate";
}

// Where more differs than the loader, a script compares no batches.
TEST_F(RunChecks, TheLoaderOfAScriptIsComparedBesideWhatWasKept) {
  input_.is_script = true;
  recipes::Knob threads;
  threads.name = "loader.native_threads";
  threads.type = recipes::KnobType::integer;
  threads.maximum = 4;
  threads.default_value = std::int64_t{0};
  threads.risk = recipes::RiskClass::numerics;
  input_.knobs.push_back(threads);
  input_.starting.set(threads.name, std::int64_t{0});
  incumbent_.set(threads.name, std::int64_t{0});
  const Configuration alone = change(threads.name, std::int64_t{2});
  EXPECT_EQ(run(alone).back().risk, "numerics");
  EXPECT_EQ(asked_.front().reference, incumbent_);
  asked_.clear();
  run(alone.with(change("precision.autocast", std::string("bf16"))));
  EXPECT_EQ(asked_.front().reference, input_.starting);
}

TEST_F(RunChecks, TheJobsOwnTurnsAreLookedAtWhereTheCandidateFailsLater) {
  int looks = 0;
  const auto turned = [](std::int64_t steps, double cosine) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.equal = false;
    updates.parameters[0].cosine = cosine;
    return updates;
  };
  job_.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    return turned(steps, steps == 1 ? 0.99 : 0.5);
  };
  job_.rounded_updates = [&](const Configuration& configuration, std::int64_t steps) {
    ++looks;
    EXPECT_EQ(configuration, input_.starting);
    return turned(steps, 0.6);
  };
  EXPECT_TRUE(run(change("precision.autocast", std::string("bf16")))[0].passed);
  EXPECT_EQ(looks, 1);
  // One step is too few to be led astray.
  job_.updates = [&](const Configuration&, const Configuration&, std::int64_t steps) {
    return turned(steps, 0.5);
  };
  EXPECT_FALSE(run(change("precision.autocast", std::string("bf16")))[0].passed);
  EXPECT_EQ(looks, 2) << "none for the one step";
}

TEST_F(RunChecks, SmallLossesAreSmallOnlyOfACrossEntropy) {
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.equal = false;
    updates.reference_losses.assign(static_cast<std::size_t>(steps), 1e-4);
    updates.candidate_losses.assign(static_cast<std::size_t>(steps), 3e-4);
    return updates;
  };
  const Configuration bf16 = change("precision.autocast", std::string("bf16"));
  for (const char* loss : {"cross_entropy", "bce"}) {
    input_.recipe.loss = loss;
    EXPECT_TRUE(run(bf16)[0].passed) << loss;
  }
  for (const char* loss : {"mse", "l1", "plugin"}) {
    input_.recipe.loss = loss;
    EXPECT_THAT(run(bf16)[0].detail, HasSubstr("the loss of step 1")) << loss;
  }
  input_.recipe.loss = "cross_entropy";
  input_.is_script = true;
  EXPECT_FALSE(run(bf16)[0].passed) << "nobody knows what it minimises";
}

TEST_F(RunChecks, NumericsAreComparedAtTheStartingBatchSize) {
  incumbent_.set("batch_size", std::int64_t{128});
  run(change("precision.autocast", std::string("bf16")));
  EXPECT_EQ(asked_[0].candidate.integer("batch_size"), 32);
}

TEST_F(RunChecks, SemanticsNameTheLearningRateRule) {
  const auto checks = run(change("batch_size", std::int64_t{64}));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].risk, "semantics");
  EXPECT_THAT(
      checks[0].detail,
      HasSubstr("batch size 64 instead of 32, learning rate 0.2 instead of 0.1 (rule: linear)"));
}

TEST_F(RunChecks, WhatIsNotEqualMayPassAsNumericsWhenPermitted) {
  is_equal_ = false;
  const auto checks = run(change("loader.workers", std::int64_t{2}));
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("checked as numerics"));
  EXPECT_TRUE(checks[1].passed);
}

TEST_F(RunChecks, WhatIsNotEqualFailsOtherwise) {
  is_equal_ = false;
  input_.recipe.tune.allow = {};
  const auto checks = run(change("loader.workers", std::int64_t{2}));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
}

TEST_F(RunChecks, ADeviceThatDoesNotRepeatItselfIsComparedByItsOwnDifferences) {
  input_.recipe.tune.allow = {};
  input_.job_facts["device"] = "cuda:0";
  double candidate_ratio = 1.02;
  job_.updates = [&](const Configuration& reference, const Configuration& candidate,
                     std::int64_t steps) {
    asked_.push_back({reference, candidate, steps});
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.equal = false;
    updates.parameters[0].norm_ratio = reference == candidate ? 1.01 : candidate_ratio;
    return updates;
  };
  auto checks = run(change("loader.workers", std::int64_t{2}));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_TRUE(checks[0].passed) << checks[0].detail;
  EXPECT_EQ(checks[0].risk, "exact");
  EXPECT_THAT(checks[0].detail, HasSubstr("two runs of one configuration differ"));
  EXPECT_EQ(asked_[1].reference, asked_[1].candidate);
  // The limits of the numerics would let this pass.
  candidate_ratio = 1.1;
  checks = run(change("loader.workers", std::int64_t{2}));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("the update of weight differs by 0.1 of its length"));
}

// A training that goes on cannot be put back to its first steps.
TEST_F(RunChecks, ARealTrainingIsLookedAtOnce) {
  job_.is_training = true;
  auto checks = run(change("loader.workers", std::int64_t{2}));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_TRUE(checks[0].passed);
  EXPECT_EQ(checks[0].steps, 8);
  EXPECT_THAT(checks[0].detail, Not(HasSubstr("in the process that was measured")));
  checks = run(change("precision.autocast", std::string("bf16")));
  EXPECT_TRUE(checks[0].passed);
  run(change("batch_size", std::int64_t{64}));
  EXPECT_EQ(asked_.back().reference, incumbent_) << "the training goes on with the reference";
  EXPECT_THAT(job_.looks,
              ElementsAre(CheckedSteps::later, CheckedSteps::later, CheckedSteps::later));
}

TEST_F(RunChecks, AJobThatCannotRoundItsStartIsHeldAgainstTheUsualLimits) {
  job_.is_training = true;
  job_.rounded_fault = Error{.kind = ErrorKind::unsupported, .what = "nothing is put back"};
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.parameters[0].cosine = 0.5;
    return updates;
  };
  const auto checks = run(change("precision.autocast", std::string("bf16")));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].passed);
  EXPECT_THAT(checks[0].detail, HasSubstr("cosine of 0.500"));
}

TEST_F(RunChecks, AMixedChangePassesEveryCheckOfItsParts) {
  Configuration mixed = change("loader.workers", std::int64_t{2});
  mixed.set("precision.autocast", std::string("bf16"));
  mixed.set("batch_size", std::int64_t{64});
  const auto checks = run(mixed);
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_EQ(asked_[0].candidate.integer("batch_size"), 32) << "the exact part alone";
}

TEST_F(RunChecks, ATrainedModelIsCheckedAgainstTheStart) {
  const Configuration best = incumbent_.with(change("batch_size", std::int64_t{64}));
  auto check = check_trained(input_, job_, best);
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->passed);
  EXPECT_THAT(check->detail, HasSubstr("from the trained weights"));
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::reached));
  EXPECT_EQ(asked_[0].reference, input_.starting);
  EXPECT_EQ(asked_[0].candidate, incumbent_);
  EXPECT_EQ(
      checked_after_training(input_, input_.starting.with(change("batch_size", std::int64_t{64}))),
      input_.starting);
}

TEST_F(RunChecks, ATrainedModelIsHeldAgainstWhatTheJobDoesByItself) {
  int looks = 0;
  job_.updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.equal = false;
    updates.parameters[0].cosine = 0.5;
    return updates;
  };
  job_.rounded_updates = [&](const Configuration& configuration, std::int64_t steps) {
    ++looks;
    EXPECT_EQ(configuration, input_.starting);
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.parameters[0].cosine = 0.6;
    return updates;
  };
  EXPECT_TRUE(check_trained(input_, job_, incumbent_)->passed);
  EXPECT_EQ(looks, 1);
  EXPECT_THAT(job_.looks, ElementsAre(CheckedSteps::reached)) << "the process may have gone";
}

TEST_F(RunChecks, OfAChangeThatFailedItsExtensionIsToBlame) {
  add_extension(recipes::RiskClass::numerics);
  Configuration best = input_.starting.with(change("batch_size", std::int64_t{64}));
  best.set("loader.workers", std::int64_t{2});
  EXPECT_EQ(blamed_part(input_, best), change("loader.workers", std::int64_t{2}));
  best.set("precision.autocast", std::string("bf16"));
  EXPECT_EQ(blamed_part(input_, best), change("precision.autocast", std::string("bf16")));
  best.set("mine.skip", true);
  EXPECT_EQ(blamed_part(input_, best), change("mine.skip", true));
}

// As the job of a guard.
class MeasuredBackend final : public TrainingBackend {
 public:
  Result<Block> run_block(const Configuration& /*configuration*/,
                          const BlockRequest& /*request*/) override {
    return Block{};
  }
};

TEST_F(RunChecks, AJobThatIsOnlyMeasuredHasNone) {
  MeasuredBackend job;
  for (const Configuration& tried : {change("loader.workers", std::int64_t{2}),
                                     change("precision.autocast", std::string("bf16"))}) {
    const auto checks = run_checks(input_, job, incumbent_, tried);
    ASSERT_FALSE(checks);
    EXPECT_EQ(checks.error().kind, ErrorKind::unsupported);
  }
  EXPECT_EQ(job.profile(incumbent_).error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace autotuned::tuner
