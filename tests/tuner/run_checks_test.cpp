// SPDX-License-Identifier: Apache-2.0
// Which looks a change is given, and which rule judges them.
#include <gmock/gmock.h>

#include "tests/tuner/simulation.hpp"
#include "tuner/checks.hpp"

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
      UpdateComparison updates = SimulatedJob::equal(steps);
      updates.equal = is_equal_;
      return updates;
    };
  }

  std::vector<CheckRecord> run(const Configuration& change) {
    auto checks = run_checks(input_, job_, incumbent_, change);
    EXPECT_TRUE(checks);
    return *checks;
  }

  static Configuration change(const std::string& knob, const KnobValue& value) {
    Configuration change;
    change.set(knob, value);
    return change;
  }

  FakeClock clock_;
  SimulatedJob job_{clock_};
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

TEST_F(RunChecks, TheJobsOwnTurnsAreLookedAtWhereTheCandidateFailsLater) {
  int looks = 0;
  const auto turned = [](std::int64_t steps, double cosine) {
    UpdateComparison updates = SimulatedJob::equal(steps);
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
    UpdateComparison updates = SimulatedJob::equal(steps);
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
  EXPECT_THAT(checks[0].detail, HasSubstr("the update of weight is 0.1 of its length away"));
}

TEST_F(RunChecks, AMixedChangePassesEveryCheckOfItsParts) {
  Configuration mixed = change("loader.workers", std::int64_t{2});
  mixed.set("precision.autocast", std::string("bf16"));
  mixed.set("batch_size", std::int64_t{64});
  const auto checks = run(mixed);
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_EQ(asked_[0].candidate.integer("batch_size"), 32) << "the exact part alone";
}

}  // namespace
}  // namespace autotuned::tuner
