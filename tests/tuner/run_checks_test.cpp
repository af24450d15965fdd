// SPDX-License-Identifier: Apache-2.0
// Which looks a change is given, and which rule judges them.
#include <gmock/gmock.h>

#include "tests/tuner/simulation.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Which comparisons are asked of the job, and what is made of them.
class RunChecks : public testing::Test {
 protected:
  struct Asked {
    Configuration reference;
    Configuration candidate;
    std::int64_t steps;
  };

  RunChecks() {
    job_.updates = [this](const Configuration& reference, const Configuration& candidate,
                          std::int64_t steps) {
      asked_.push_back({reference, candidate, steps});
      UpdateComparison updates = SimulatedBackend::equal(steps);
      updates.equal = is_equal_;
      return updates;
    };
  }

  std::vector<CheckRecord> run(const Configuration& change) {
    auto checks = run_checks(input_, job_, incumbent_, change);
    EXPECT_TRUE(checks);
    return *checks;
  }

  // An extension with a knob of that class.
  void add_extension(recipes::RiskClass risk) {
    recipes::Knob knob;
    knob.name = "mine.skip";
    knob.default_value = false;
    knob.risk = risk;
    input_.knobs.push_back(knob);
    input_.extension_knobs.push_back(knob.name);
    input_.starting.set(knob.name, false);
    incumbent_.set(knob.name, false);
  }

  static Configuration change(const std::string& knob, const KnobValue& value) {
    Configuration change;
    change.set(knob, value);
    return change;
  }

  FakeClock clock_;
  SimulatedBackend job_{clock_};
  SessionInput input_ = simulated_input();
  Configuration incumbent_ = input_.starting.with(change("optimizer.fused", true));
  bool is_equal_ = true;
  std::vector<Asked> asked_;
};

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
  EXPECT_EQ(asked_[0].reference, incumbent_);
  EXPECT_EQ(asked_[0].candidate, incumbent_.with(change("mine.skip", true)))
      << "another batch is another job";
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
  job_.restart_knobs = {"batch_size"};
  Configuration both = change("mine.skip", true);
  both.set("batch_size", std::int64_t{64});
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
  candidate_ratio = 1.1;
  checks = run(change("mine.skip", true));
  EXPECT_TRUE(checks[0].passed) << checks[0].detail;
  EXPECT_EQ(checks[0].risk, "numerics");
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
