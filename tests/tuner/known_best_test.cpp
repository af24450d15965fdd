// SPDX-License-Identifier: Apache-2.0
// What an earlier run found, and what it could not try.
#include <gmock/gmock.h>

#include <optional>

#include "tests/tuner/simulation.hpp"
#include "tuner/session.hpp"

namespace autotuned::tuner {
namespace {

SessionOutcome whole_search() {
  Simulation simulation;
  add_three_plugins(simulation);
  return simulation.run().value();
}

// A budget that sufficed for the first proposals is no knowledge of the others.
TEST(KnownBest, ASearchThatWasCutGoesOnFromWhatItFound) {
  const SessionOutcome whole = whole_search();
  EXPECT_TRUE(whole.is_complete);
  Simulation simulation;
  add_three_plugins(simulation);

  Configuration known = simulation.input.starting;
  known.set("loader.workers", std::int64_t{2});
  simulation.input.known_best = known;
  simulation.input.is_known_best_complete = false;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->trials.at(0).kind, TrialKind::verification);
  EXPECT_EQ(outcome->trials.at(1).kind, TrialKind::proposal);
  EXPECT_EQ(outcome->trials.at(1).reference, known);
  EXPECT_EQ(outcome->best, whole.best);
  EXPECT_TRUE(outcome->is_complete);
  EXPECT_FALSE(outcome->is_from_history);
}

TEST(KnownBest, ASearchThatWasCutBeforeItsFirstTrialIsBegunAgain) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.known_best = simulation.input.starting;
  simulation.input.is_known_best_complete = false;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->is_from_history);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
}

TEST(KnownBest, ASearchThatIsTakenIsNamed) {
  for (const bool is_start : {true, false}) {
    Simulation simulation;
    add_three_plugins(simulation);
    simulation.input.known_best = is_start ? simulation.input.starting : whole_search().best;
    simulation.input.known_best_run = "r-20261121-000001";
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome);
    EXPECT_TRUE(outcome->is_from_history);
    EXPECT_EQ(outcome->searched_by, "r-20261121-000001");
    EXPECT_EQ(outcome->trials.size(), is_start ? 0U : 1U);
  }
  Simulation cut;
  add_three_plugins(cut);
  cut.input.known_best = cut.input.starting;
  cut.input.known_best_run = "r-20261121-000001";
  cut.input.is_known_best_complete = false;
  const auto outcome = cut.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->searched_by, "") << "it has searched itself";
}

TEST(KnownBest, WhatAnEarlierRunDecidedIsNotTriedAgain) {
  const SessionOutcome whole = whole_search();
  Simulation simulation;
  add_three_plugins(simulation);
  std::vector<TrialRecord> lost;
  for (const TrialRecord& trial : whole.trials) {
    if (trial.kind == TrialKind::proposal && trial.verdict == Verdict::rejected)
      lost.push_back(trial);
  }
  ASSERT_FALSE(lost.empty());
  simulation.input.known_best = whole.best;
  simulation.input.is_known_best_complete = false;
  simulation.input.decided = lost;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->is_complete);
  EXPECT_EQ(outcome->best, whole.best);
  // The verification is all that is needed where nothing was added.
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_TRUE(outcome->is_from_history);
}

TEST(KnownBest, ABudgetThatIsTooSmallLeavesTheSearchIncomplete) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.recipe.tune.budget = std::chrono::nanoseconds{1};
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->is_searched);
  EXPECT_TRUE(outcome->is_budget_spent);
  EXPECT_FALSE(outcome->is_complete);
}

// The gain that its trial has shown is hidden by noise as soon as it is confirmed.
void hide_from_confirmation(Simulation& simulation) {
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
  simulation.input.recipe.tune.budget = std::chrono::seconds(20);
  simulation.job.fault = [&simulation](const Configuration&) -> std::optional<Error> {
    for (const auto& [number, trial] : simulation.ledger.trials) {
      if (trial.kind == TrialKind::confirmation) simulation.job.noise = 0.6;
    }
    return std::nullopt;
  };
  simulation.job.rate = [&simulation](const Configuration& configuration) {
    const bool is_hidden = simulation.job.noise > 0.1;
    return 1000.0 *
           faster_with(configuration, "loader.workers", std::int64_t{2}, is_hidden ? 1.1 : 1.5);
  };
}

TEST(KnownBest, AConfirmationThatItsTimeCutShortLeavesTheSearchIncomplete) {
  Simulation first;
  hide_from_confirmation(first);
  const auto cut = first.run();
  ASSERT_TRUE(cut);
  ASSERT_EQ(cut->trials.size(), 2U);
  EXPECT_EQ(cut->trials[0].verdict, Verdict::accepted);
  EXPECT_EQ(cut->trials[1].kind, TrialKind::confirmation);
  ASSERT_EQ(cut->trials[1].rejection, RejectionReason::undecided_in_time) << cut->trials[1].reason;
  EXPECT_EQ(cut->best, first.input.starting);
  EXPECT_FALSE(cut->is_complete);
  EXPECT_TRUE(cut->is_budget_spent);

  // What it would have confirmed is tried again.
  Simulation second;
  second.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
  second.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
  second.input.known_best = cut->best;
  second.input.is_known_best_complete = false;
  second.input.decided = {cut->trials[0]};
  const auto whole = second.run();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->best.integer("loader.workers"), 2);
  EXPECT_TRUE(whole->is_complete);
}

// What it would have proposed, nobody knows.
TEST(KnownBest, APluginThatFailsLeavesTheSearchIncomplete) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.advisors.plugins["broken"] = [](const Json&) -> Result<Json> {
    return fail(ErrorKind::crashed, "boom");
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_FALSE(outcome->is_budget_spent);
}

// What is remembered would have to be verified first.
TEST(KnownBest, WithoutABudgetNothingIsMeasuredAndTheStartIsTrained) {
  const SessionOutcome whole = whole_search();
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.recipe.tune.budget = std::chrono::nanoseconds{0};
  simulation.input.known_best = whole.best;
  simulation.input.is_ablated = true;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->is_searched);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_FALSE(outcome->is_budget_spent);
  EXPECT_FALSE(outcome->is_from_history);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_TRUE(outcome->trials.empty());
  EXPECT_EQ(outcome->tuning_time.count(), 0);
  EXPECT_EQ(simulation.job.blocks, 0);
  EXPECT_TRUE(simulation.job.traced.empty());
}

// Whichever of two comes first is kept: the check failed with both of them.
TEST(KnownBest, WhatTheCheckAfterATrainingFailedWithIsNotKeptAgain) {
  Simulation simulation;
  add_three_plugins(simulation);
  Configuration refused;
  refused.set("loader.workers", std::int64_t{2});
  refused.set("precision.autocast", std::string("bf16"));
  simulation.input.refused = {refused};
  Configuration known = simulation.input.starting.with(refused);
  simulation.input.known_best = known;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  for (const TrialRecord& trial : outcome->trials) {
    const Configuration target = trial.reference.with(trial.change);
    EXPECT_NE(target.with(refused), target) << "trial " << trial.number;
  }
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "off");
  EXPECT_THAT(simulation.ledger.events,
              testing::Contains(testing::HasSubstr(
                  "skipped: the check after an earlier training of this job failed with "
                  "loader.workers=2 precision.autocast=bf16")));
}

TEST(KnownBest, NothingBetterKnownIsKnownToo) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.known_best = simulation.input.starting;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->is_from_history);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_THAT(outcome->trials, testing::IsEmpty());
}

// As one that its time cut short: the search begins anew.
TEST(KnownBest, AVerificationThatWasDisturbedDecidesNothing) {
  Simulation simulation;
  add_three_plugins(simulation);
  const Configuration known = whole_search().best;
  simulation.input.known_best = known;
  bool is_disturbed = false;
  simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
    if (is_disturbed || configuration != known) return std::nullopt;
    is_disturbed = true;
    return disturbance();
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[0].kind, TrialKind::verification);
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time);
  EXPECT_EQ(outcome->trials[1].kind, TrialKind::proposal);
  EXPECT_FALSE(outcome->is_from_history);
  EXPECT_EQ(outcome->best, known);
}

// What is remembered is a small gain in much noise.
void hide_known_best(Simulation& simulation) {
  add_three_plugins(simulation);
  simulation.job.noise = 0.6;
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.1);
  };
  Configuration known = simulation.input.starting;
  known.set("loader.workers", std::int64_t{2});
  simulation.input.known_best = known;
}

// A pair takes 0.2 s, and the shortest trial with the ceiling before it and its confirmation less than 10 s.
TEST(KnownBest, AVerificationLeavesTimeForATrial) {
  Simulation simulation;
  hide_known_best(simulation);
  simulation.input.recipe.tune.budget = std::chrono::seconds(20);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_FALSE(outcome->trials.empty());
  ASSERT_EQ(outcome->trials[0].kind, TrialKind::verification);
  ASSERT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time)
      << outcome->trials[0].reason;
  EXPECT_LE(outcome->trials[0].duration_ns, 10'500'000'000);
}

// The run has measured something: it must not read as if nothing were known. Where no trial fits into the rest, the
// verification has it.
TEST(KnownBest, AVerificationThatTookTheWholeBudgetIsToldAsSuch) {
  Simulation simulation;
  hide_known_best(simulation);
  simulation.input.known_best_run = "r-20261121-000001";
  simulation.input.known_best_speedup = {.ratio = 1.4, .low = 1.28, .high = 1.58, .pairs = 20};
  simulation.input.recipe.tune.budget = std::chrono::seconds(7);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].kind, TrialKind::verification);
  ASSERT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time)
      << outcome->trials[0].reason;
  EXPECT_EQ(outcome->trials[0].proposal_reason,
            "the best configuration of run r-20261121-000001, measured before as 1.40 x (1.28 to "
            "1.58)");
  EXPECT_THAT(outcome->shortage,
              testing::HasSubstr("tune.budget 7.0 s has no time for a trial after the verification "
                                 "of the remembered configuration: about "));
  EXPECT_TRUE(outcome->is_budget_spent);
  EXPECT_GT(outcome->tuning_time, std::chrono::milliseconds(6700));
  EXPECT_LE(outcome->tuning_time, std::chrono::seconds(7));
}

}  // namespace
}  // namespace autotuned::tuner
