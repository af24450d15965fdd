// SPDX-License-Identifier: Apache-2.0
// What a run keeps, what it tries, and what it says when its budget is small.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Proposes `change` whatever happened.
SimulatedAdvisors::Plugin always(const Json& change, double gain) {
  return [change, gain](const Json&) -> Result<Json> { return propose(change, gain); };
}

TEST(Keeping, TheSameChangeOfTwoPluginsIsTriedOnce) {
  Simulation simulation;
  simulation.advisors.plugins["one"] = always({{"loader.workers", 2}}, 1.5);
  simulation.advisors.plugins["two"] = always({{"loader.workers", 2}}, 1.4);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].plugin, "one");
  EXPECT_THAT(simulation.ledger.events,
              Contains("answered two: skipped: loader.workers=2 was tried already as trial 1"));
}

TEST(Keeping, AnAblationThatCannotRunIsData) {
  Simulation simulation;
  simulation.input.is_ablated = true;
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
  simulation.advisors.plugins["precision"] = once({{"precision.autocast", "bf16"}}, 1.4);
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_bf16(configuration, 1.3) *
           faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
  // The whole without its loader workers runs no more.
  simulation.job.fault = [](const Configuration& configuration) -> std::optional<Error> {
    const bool is_bf16 = configuration.text("precision.autocast") == "bf16";
    if (!is_bf16 || configuration.integer("loader.workers") == 2) return std::nullopt;
    return Error{.kind = ErrorKind::out_of_memory, .what = "no memory"};
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
  const auto failed = std::ranges::find_if(outcome->trials, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::ablation && trial.plugin == "loading";
  });
  ASSERT_NE(failed, outcome->trials.end());
  EXPECT_EQ(failed->verdict, Verdict::failed);
  EXPECT_EQ(failed->failure, ErrorKind::out_of_memory);
  EXPECT_THAT(failed->reason, HasSubstr("does not run without this change"));
}

// A proposal that needs processes, and one that does not.
void add_restart_and_live(Simulation& simulation) {
  simulation.job.restart_knobs = {"env.PLACEBO_SETTING"};
  simulation.advisors.plugins["restart"] = [](const Json& situation) -> Result<Json> {
    if (!situation["trials"].empty()) return none("it was tried");
    return propose({{"env.PLACEBO_SETTING", "1"}}, 1.9);
  };
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.2);
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_setting(configuration) *
           faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
}

TEST(Keeping, WhatDoesNotFitIntoTheBudgetIsPassedOver) {
  Simulation simulation;
  add_restart_and_live(simulation);
  simulation.input.recipe.tune.budget = seconds(25);
  simulation.input.start_time = seconds(60);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_TRUE(outcome->is_budget_spent) << "something was left untried";
  EXPECT_EQ(outcome->trials[0].plugin, "live");
  EXPECT_THAT(simulation.ledger.warnings,
              ElementsAre(HasSubstr("too small for a change that needs processes of its own")));
}

// What cannot be decided comes last.
TEST(Keeping, AFirstLookThatLeavesNoTimeIsToldAsUndecided) {
  Simulation simulation;
  add_restart_and_live(simulation);
  simulation.input.recipe.tune.budget = seconds(30);
  simulation.input.start_time = seconds(5);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_GE(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[0].plugin, "live");
  EXPECT_EQ(outcome->trials[1].plugin, "restart");
  EXPECT_EQ(outcome->trials[1].rejection, RejectionReason::undecided_in_time);
  EXPECT_EQ(outcome->trials[1].process_pairs, 1);
  EXPECT_THAT(outcome->trials[1].reason,
              HasSubstr("in fresh processes, and what is left of the budget"));
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_TRUE(outcome->is_budget_spent);
  EXPECT_FALSE(outcome->is_complete);
}

// After the first look each process takes five times as long to start: some pairs of them, and no verdict.
TEST(Keeping, ProcessesThatTheTimeCutShortLeaveTheSearchIncomplete) {
  Simulation simulation;
  add_restart_and_live(simulation);
  simulation.advisors.plugins.erase("live");
  simulation.input.recipe.tune.budget = seconds(120);
  int fresh = 0;
  simulation.job.start_fault = [&](const Configuration&,
                                   ProcessChoice process) -> std::optional<Error> {
    if (process == ProcessChoice::fresh && ++fresh > 2) {
      simulation.job.start_duration = seconds(10);
    }
    return std::nullopt;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(outcome->trials.empty());
  const TrialRecord& trial = outcome->trials[0];
  EXPECT_EQ(trial.rejection, RejectionReason::undecided_in_time) << trial.reason;
  EXPECT_GE(trial.process_pairs, 2);
  EXPECT_LE(trial.process_pairs, 7);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_TRUE(outcome->is_budget_spent);
}

// Faster by the median in all of its pairs, which are too few to show rare stalls.
TEST(Keeping, TooFewPairsForRareStallsLeaveTheSearchIncomplete) {
  Simulation simulation;
  simulation.input.recipe.tune.budget = seconds(12);
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.9);
  simulation.job.noise = 0.001;
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.05);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(outcome->trials.empty());
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time)
      << outcome->trials[0].reason;
  EXPECT_GT(outcome->trials[0].estimate.low, 1.0);
  EXPECT_THAT(outcome->trials[0].reason, HasSubstr("fewer can miss rare stalls"));
  EXPECT_FALSE(outcome->is_complete);
}

// Fewer pairs than any verdict takes: the search is not over, and the next run of the job goes on with it.
TEST(Keeping, AGainThatTheTimeCutShortLeavesTheSearchIncomplete) {
  Simulation simulation;
  simulation.input.recipe.tune.budget = seconds(20);
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.9);
  simulation.job.rate = [&](const Configuration& configuration) {
    // From the third pair of the trial on, something else takes the time.
    const auto measured = simulation.ledger.blocks.find(1);
    if (measured != simulation.ledger.blocks.end() && measured->second >= 4) {
      simulation.clock.advance(seconds(4));
    }
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 2.0);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(outcome->trials.empty());
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time)
      << outcome->trials[0].reason;
  EXPECT_LT(outcome->trials[0].estimate.pairs, 7);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_TRUE(outcome->is_budget_spent);
}

TEST(Keeping, ABudgetForNoTrialIsNotSpent) {
  Simulation simulation;
  simulation.input.recipe.tune.budget = milliseconds(5300);
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.2);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->shortage,
            "tune.budget 5.3 s is too small for one trial here: at least 5.4 s are needed, more "
            "where steps are slow");
  EXPECT_EQ(simulation.job.blocks, 0);
  EXPECT_EQ(outcome->tuning_time, seconds(0));
  EXPECT_FALSE(outcome->is_searched);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_TRUE(outcome->is_budget_spent);
  EXPECT_THAT(simulation.ledger.warnings, IsEmpty()) << "it is told once";

  // It names what set it.
  simulation.input.is_budget_option = true;
  const auto by_option = simulation.run();
  ASSERT_TRUE(by_option);
  EXPECT_THAT(by_option->shortage, HasSubstr("--budget 5.3 s is too small for one trial here"));

  // The next run tries what there was no time for.
  simulation.input.recipe.tune.budget = seconds(60);
  const auto whole = simulation.run();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->shortage, "");
  EXPECT_FALSE(whole->trials.empty());
}

// By the baseline it is known that steps are slow. Of 20 s it has taken a quarter, and no more is spent.
TEST(Keeping, ABudgetForNoTrialOfSlowStepsEndsWithTheBaseline) {
  Simulation simulation;
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.2);
  simulation.input.recipe.tune.budget = seconds(20);
  simulation.job.step_ns = 1'500'000'000;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->shortage,
            "tune.budget 20.0 s is too small for one trial here: about 1 min 08 s are needed");
  EXPECT_EQ(simulation.job.blocks, 3);
  EXPECT_EQ(outcome->tuning_time, milliseconds(4500));
  EXPECT_TRUE(outcome->is_searched);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_TRUE(outcome->is_budget_spent);
  EXPECT_GT(outcome->baseline_samples_per_second, 0.0);
  EXPECT_THAT(simulation.ledger.warnings, IsEmpty()) << "it is told once";
  EXPECT_THAT(simulation.ledger.profiles, IsEmpty());
  EXPECT_THAT(simulation.advisors.situations, IsEmpty());

  // What is told as needed suffices.
  simulation.input.recipe.tune.budget = seconds(68);
  const auto whole = simulation.run();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->shortage, "");
  EXPECT_FALSE(whole->trials.empty());
}

// Nobody gave it, so what to give is said.
TEST(Keeping, AShareOfTheTimeOfAScriptThatHoldsNoTrialIsToldAsSuch) {
  Simulation simulation;
  simulation.input.is_script = true;
  simulation.input.recipe.tune.budget = seconds(20);
  simulation.job.step_ns = 1'500'000'000;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_THAT(outcome->shortage,
              HasSubstr("the share of the script's time that tuning may take, 20.0 s, is too small "
                        "for one trial here: about 1 min "));
  EXPECT_THAT(outcome->shortage,
              testing::ContainsRegex(" are needed; --budget [1-9][0-9]*[05]s would do$"));

  simulation.input.is_budget_option = true;
  const auto by_option = simulation.run();
  ASSERT_TRUE(by_option);
  EXPECT_THAT(by_option->shortage, HasSubstr("--budget 20.0 s is too small for one trial here"));
  EXPECT_THAT(by_option->shortage, testing::EndsWith(" are needed"));
}

// The verification is worth its time; what would follow has none.
TEST(Keeping, ABudgetForNoTrialVerifiesWhatIsKnown) {
  Simulation simulation;
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_bf16(configuration, 1.5);
  };
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.2);
  Configuration bf16;
  bf16.set("precision.autocast", std::string("bf16"));
  simulation.input.known_best = simulation.input.starting.with(bf16);
  simulation.input.is_known_best_complete = false;
  simulation.input.recipe.tune.budget = seconds(2);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].kind, TrialKind::verification);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
  EXPECT_THAT(outcome->shortage,
              HasSubstr("tune.budget 2.0 s has no time for a trial after the verification of the "
                        "remembered configuration: about "));
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_THAT(simulation.advisors.situations, IsEmpty());
}

// It has had its trials, and the whole of it is not what was too small.
TEST(Keeping, ABudgetThatAnEarlierProcessHasUsedIsNotTooSmall) {
  Simulation simulation;
  simulation.advisors.plugins["live"] = once({{"loader.workers", 2}}, 1.2);
  simulation.input.recipe.tune.budget = seconds(60);
  simulation.input.earlier_tuning_time = seconds(59);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->shortage, "");
  EXPECT_TRUE(outcome->is_budget_spent);
  ASSERT_EQ(outcome->untried.size(), 1U);
  EXPECT_EQ(outcome->untried[0].plugin, "live");
}

TEST(Keeping, WhatABudgetDoesNotSufficeForIsKnownBeforeTheBaseline) {
  EXPECT_EQ(budget_warning(seconds(0), false, seconds(1)), "") << "nothing is measured";
  EXPECT_EQ(budget_warning(seconds(47), false, seconds(1)), "");
  EXPECT_EQ(budget_warning(seconds(46), true, seconds(1)), "") << "a script starts once";
  EXPECT_EQ(budget_warning(seconds(46), false, seconds(0)), "");
  EXPECT_EQ(
      budget_warning(seconds(46), false, seconds(1)),
      "tune.budget 46.0 s is too small for a change that needs processes of its own: a trial and "
      "its confirmation take at least 47.0 s, for 32 starts of a trainer; only changes without a "
      "restart are decided");
  EXPECT_THAT(budget_warning(seconds(2), false, seconds(0)),
              HasSubstr("tune.budget 2.0 s is too small for one trial here: at least 5.4 s"));
  EXPECT_THAT(budget_warning(seconds(2), true, seconds(0)),
              HasSubstr("--budget 2.0 s is too small for one trial here: at least 4.4 s"))
      << "a script has no ceiling";
}

// Nothing is searched: what it would not suffice for is not tried.
TEST(Keeping, ABudgetThatVerifiesWhatIsKnownIsNotTooSmall) {
  Simulation simulation;
  simulation.input.known_best = simulation.input.starting;
  simulation.input.recipe.tune.budget = seconds(2);
  ASSERT_TRUE(simulation.run());
  EXPECT_THAT(simulation.ledger.warnings, IsEmpty());
}

TEST(Keeping, AConfirmationOfARestartKnobIsOfFreshProcesses) {
  Simulation simulation;
  simulation.job.restart_knobs = {"env.PLACEBO_SETTING"};
  simulation.job.process_effect = 0.01;
  simulation.advisors.plugins["restart"] = [](const Json& situation) -> Result<Json> {
    if (!situation["trials"].empty()) return none("it was tried");
    return propose({{"env.PLACEBO_SETTING", "1"}}, 1.5);
  };
  simulation.job.rate = rate_with_setting;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[0].process_pairs, 8);
  EXPECT_EQ(outcome->trials[1].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->trials[1].process_pairs, 7);
  EXPECT_NEAR(outcome->speedup.ratio, 1.3, 0.04);
  EXPECT_LE(outcome->tuning_time, seconds(90));
}

// The rate that a run starts from is the mean of two where blocks are slow, not the larger.
TEST(Keeping, TheBaselineOfTwoSlowBlocksIsTheirMedian) {
  Simulation simulation;
  simulation.job.noise = 0.0;
  simulation.job.step_ns = 1'500'000'000;
  simulation.job.rate = [block = 0](const Configuration&) mutable {
    ++block;
    return block == 2 ? 900.0 : block == 3 ? 1100.0 : 1000.0;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_NEAR(outcome->baseline_samples_per_second, 1e6, 1e3);
}

// A ladder measured while the machine was slower than at the start.
TEST(Keeping, TheCeilingIsNotBelowTheMeasuredStart) {
  Simulation simulation;
  simulation.job.noise = 0.0;
  simulation.job.ceiling_ratio = 1.0;
  simulation.job.rate = [block = 0](const Configuration&) mutable {
    return ++block <= 6 ? 1000.0 : 500.0;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(simulation.ledger.ceilings.empty());
  EXPECT_GE(simulation.ledger.ceilings[0].samples_per_second, 0.99e6);
}

// A ladder measured while the machine was faster than at the start.
TEST(Keeping, TheCeilingOfTheStartIsToldBesideItsMeasuredRate) {
  Simulation simulation;
  simulation.job.noise = 0.0;
  simulation.job.ceiling_ratio = 1.0;
  simulation.job.rate = [block = 0](const Configuration&) mutable {
    return ++block <= 6 ? 500.0 : 1000.0;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  const double start = outcome->baseline_samples_per_second;
  EXPECT_NEAR(start, 0.5e6, 1e3);
  ASSERT_FALSE(simulation.ledger.ceilings.empty());
  EXPECT_NEAR(simulation.ledger.ceilings[0].samples_per_second, start, 1.0);
  EXPECT_NEAR(outcome->ceiling.samples_per_second, start, 1.0);
}

// The rate of the confirmation may differ from that of the blocks with which the ceiling was measured.
TEST(Keeping, TheLastCeilingThatIsToldIsThatOfTheOutcome) {
  Simulation simulation;
  add_three_plugins(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_FALSE(simulation.ledger.ceilings.empty());
  const Ceiling& told = simulation.ledger.ceilings.back();
  EXPECT_EQ(told.samples_per_second, outcome->ceiling.samples_per_second);
  EXPECT_EQ(ladder_json(told), ladder_json(outcome->ceiling));
}

}  // namespace
}  // namespace autotuned::tuner
