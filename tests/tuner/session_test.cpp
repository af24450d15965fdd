// SPDX-License-Identifier: Apache-2.0
#include "tuner/session.hpp"

#include <gmock/gmock.h>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Session, KeepsWhatHelpsAndConfirmsIt) {
  Simulation simulation;
  add_three_plugins(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();

  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
  EXPECT_FALSE(outcome->best.flag("optimizer.set_to_none"));
  EXPECT_NEAR(outcome->speedup.ratio, 1.95, 0.05);
  EXPECT_LT(outcome->speedup.low, 1.95);
  EXPECT_GT(outcome->speedup.high, 1.95);
  EXPECT_NEAR(outcome->best_samples_per_second / outcome->baseline_samples_per_second, 1.95, 0.1);
  EXPECT_FALSE(outcome->is_from_history);
  EXPECT_FALSE(outcome->is_budget_spent);

  ASSERT_EQ(outcome->trials.size(), 4U);
  EXPECT_EQ(outcome->trials[0].plugin, "loading");  // the most expected of it
  EXPECT_EQ(outcome->trials[1].plugin, "precision");
  EXPECT_EQ(outcome->trials[1].reference,
            outcome->trials[0].reference.with(outcome->trials[0].change));
  EXPECT_EQ(outcome->trials[2].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->trials[3].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->trials[3].reference, simulation.input.starting);
  EXPECT_EQ(outcome->trials[0].estimate.pairs, 7);
  EXPECT_THAT(simulation.ledger.events, Contains("answered useless: it was tried"));
}

// Watchers see about how many trials there will be, and what is left of the budget.
TEST(Session, TellsWhereItStands) {
  Simulation simulation;
  add_three_plugins(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  const std::vector<TuningProgress>& told = simulation.ledger.told;
  ASSERT_EQ(told.size(), 5U);  // the beginning, three proposals, the confirmation
  EXPECT_EQ(told[0].trials_expected, 0);
  EXPECT_EQ(told[1].trials_expected, 4);
  EXPECT_EQ(told[3].trials_done, 2);
  EXPECT_EQ(told[4].trials_done, 3);
  EXPECT_EQ(told[4].trials_expected, 1);
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].budget, simulation.input.recipe.tune.budget);
    if (i > 0) {
      EXPECT_GT(told[i].budget_spent, told[i - 1].budget_spent);
    }
  }
}

TEST(Session, WritesEveryTrialBeforeItsBlocks) {
  Simulation simulation;
  add_three_plugins(simulation);
  ASSERT_TRUE(simulation.run());
  bool is_running = false;
  for (const std::string& event : simulation.ledger.events) {
    if (event == "started") is_running = true;
    EXPECT_TRUE(is_running || event != "block");
    if (event == "finished") is_running = false;
  }
  for (const auto& [number, trial] : simulation.ledger.trials) {
    EXPECT_EQ(simulation.ledger.blocks[number], 2 * trial.estimate.pairs);
    EXPECT_NE(trial.verdict, Verdict::running);
    EXPECT_FALSE(trial.reason.empty());
  }
}

TEST(Session, WithoutPluginsTheStartingConfigurationIsBest) {
  Simulation simulation;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_EQ(outcome->speedup, (Estimate{.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0}));
  EXPECT_NEAR(outcome->baseline_samples_per_second, 1e6, 5e4);
  EXPECT_NEAR(outcome->ceiling.samples_per_second, 2e6, 1e5);
  EXPECT_THAT(outcome->trials, IsEmpty());
}

TEST(Session, NoWinnerAmongEquals) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.rate = [](const Configuration&) { return 1000.0; };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_EQ(outcome->trials.size(), 3U);
}

TEST(Session, EveryKindOfFailureCostsOneTrial) {
  for (const ErrorKind kind :
       {ErrorKind::out_of_memory, ErrorKind::crashed, ErrorKind::timeout, ErrorKind::unsupported}) {
    Simulation simulation;
    add_three_plugins(simulation);
    simulation.job.fault = [kind](const Configuration& configuration) -> std::optional<Error> {
      if (configuration.integer("loader.workers") == 2) return Error{.kind = kind, .what = "boom"};
      return std::nullopt;
    };
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->trials[0].verdict, Verdict::failed);
    EXPECT_EQ(outcome->trials[0].failure, kind);
    EXPECT_THAT(outcome->trials[0].reason, HasSubstr("boom"));
    EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
    EXPECT_EQ(outcome->best.integer("loader.workers"), 0);
  }
}

TEST(Session, AReferenceTakenDownByItsNeighbourRunsAgain) {
  Simulation simulation;
  add_three_plugins(simulation);
  int faults = 0;
  simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
    const bool is_reference = configuration == simulation.input.starting;
    if (is_reference && simulation.ledger.trials.contains(1) && faults++ == 0) {
      return Error{.kind = ErrorKind::crashed, .what = "killed"};
    }
    return std::nullopt;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::failed);
  EXPECT_THAT(outcome->trials[0].reason, HasSubstr("beside the candidate"));
}

TEST(Session, AStartingConfigurationThatFailsEndsIt) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.fault = [](const Configuration&) {
    return Error{.kind = ErrorKind::out_of_memory, .what = "no memory"};
  };
  const auto outcome = simulation.run();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, ErrorKind::out_of_memory);
  EXPECT_FALSE(outcome.error().remedy.empty());
}

TEST(Session, AChangeThatTrainsAnotherModelIsRejected) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.updates = [](const Configuration&, const Configuration& candidate,
                              std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    if (candidate.text("precision.autocast") == "bf16") {
      updates.equal = false;
      updates.parameters[0].norm_ratio = 0.5;
    }
    return updates;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "off");
  EXPECT_EQ(outcome->trials[1].verdict, Verdict::rejected);
  EXPECT_THAT(outcome->trials[1].reason, HasSubstr("0.500"));
  ASSERT_EQ(simulation.ledger.checks.size(), 2U);
  EXPECT_TRUE(simulation.ledger.checks[0].second.passed);
  EXPECT_FALSE(simulation.ledger.checks[1].second.passed);
}

// A plugin learns which parameters failed, also in the process that goes on after a death.
TEST(Session, AFailedCheckIsToldWithItsParameters) {
  Simulation simulation;
  const Json kept = {{"precision.autocast", "bf16"}, {"precision.keep_float32", "second"}};
  simulation.advisors.plugins["amp"] = [kept](const Json& situation) -> Result<Json> {
    const Json& trials = situation["trials"];
    if (trials.empty()) return propose({{"precision.autocast", "bf16"}});
    if (trials.size() > 1) return none("that was all");
    EXPECT_FALSE(trials[0]["check"].is_null());
    EXPECT_EQ(trials[0]["check"]["parameters"], Json({"second.weight"}));
    EXPECT_EQ(trials[0]["check"]["failed"], 1);
    EXPECT_EQ(trials[0]["check"]["compared"], 2);
    return propose(kept);
  };
  simulation.job.rate = [](const Configuration& configuration) {
    return configuration.text("precision.autocast") == "bf16" ? 1900.0 : 1000.0;
  };
  simulation.job.updates = [](const Configuration&, const Configuration& candidate,
                              std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.parameters.resize(1);
    updates.parameters.push_back(updates.parameters[0]);
    updates.parameters[1].name = "second.weight";
    const bool is_16_bit = candidate.text("precision.autocast") == "bf16" &&
                           candidate.text("precision.keep_float32") == "none";
    if (is_16_bit) updates.parameters[1].cosine = 0.3;
    return updates;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.text("precision.keep_float32"), "second");
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
}

TEST(Session, FallsBackToWhatHoldsInFreshBlocks) {
  // The second change helps only until the confirmation begins.
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.rate = [&](const Configuration& configuration) {
    bool is_confirming = false;
    for (const auto& [number, trial] : simulation.ledger.trials) {
      is_confirming = is_confirming || trial.kind == TrialKind::confirmation;
    }
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5) *
           faster_with(configuration, "precision.autocast", std::string("bf16"),
                       is_confirming ? 0.5 : 1.3);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "off");
  EXPECT_NEAR(outcome->speedup.ratio, 1.5, 0.05);
  EXPECT_EQ(outcome->trials[outcome->trials.size() - 2].verdict, Verdict::rejected);
}

TEST(Session, NothingHoldsMeansNothingIsFaster) {
  Simulation simulation;
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}});
  simulation.job.rate = [&](const Configuration& configuration) {
    const bool is_first_trial = simulation.ledger.trials.size() < 2;
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2},
                                is_first_trial ? 1.5 : 0.9);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_EQ(outcome->speedup.ratio, 1.0);
}

TEST(Session, TheBudgetIsKept) {
  for (const int budget_s : {3, 10, 30, 120}) {
    Simulation simulation;
    add_three_plugins(simulation);
    simulation.job.noise = 0.3;  // so that nothing is decided quickly
    simulation.input.recipe.tune.budget = seconds(budget_s);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome);
    // Baseline, ceiling and profile are spent in any case, and the least that a confirmation takes.
    EXPECT_LE(outcome->tuning_time, seconds(budget_s) + milliseconds(4500)) << budget_s;
    EXPECT_EQ(outcome->tuning_time, simulation.clock.now());
  }
}

TEST(Session, AProfileThatFailsIsToldAndTheRunGoesOn) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.profile_fault = Error{ErrorKind::timeout, "no answer within 2 min", {}, {}};
  ASSERT_TRUE(simulation.run());
  EXPECT_THAT(simulation.ledger.events, testing::Contains("not profiled: no answer within 2 min"));
  EXPECT_FALSE(simulation.ledger.trials.empty());
}

TEST(Session, ASpentBudgetIsSaid) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.recipe.tune.budget = seconds(1);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->is_budget_spent);
  EXPECT_THAT(outcome->trials, IsEmpty());
}

TEST(Session, SlowStepsAreDecidedWithTheFewestPairs) {
  Simulation simulation;
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}});
  simulation.job.step_ns = 1'500'000'000;
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[0].estimate.pairs, 7);
  EXPECT_GE(outcome->trials[1].estimate.pairs, 7);
}

// A profile that finds checkpoints makes blocks last until one has come: ten times as long as the baseline's.
TEST(Session, BlocksThatTurnOutLongLeaveTimeForTheConfirmation) {
  for (const int budget_s : {80, 120, 160, 200, 240, 280}) {
    Simulation simulation;
    add_three_plugins(simulation);
    simulation.input.recipe.tune.budget = seconds(budget_s);
    simulation.job.metrics = [&](const Configuration&) {
      simulation.job.step_ns = 2'000'000'000;
      return Json{{"step.data_wait_ratio", 0.5}};
    };
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome);
    ASSERT_FALSE(outcome->trials.empty()) << budget_s;
    EXPECT_EQ(outcome->trials.back().kind, TrialKind::confirmation) << budget_s;
    EXPECT_EQ(outcome->trials.back().verdict, Verdict::accepted) << budget_s;
    EXPECT_GE(outcome->speedup.pairs, 7) << budget_s;
  }
}

// All that is known about an earlier process is its trials.
TEST(Session, AContinuedConfirmationHasThePairsThatDecide) {
  Simulation first;
  add_three_plugins(first);
  const auto whole = first.run();
  ASSERT_TRUE(whole);

  Simulation second;
  add_three_plugins(second);
  first.ledger.pass_on(second.input);
  second.input.earlier_tuning_time = second.input.recipe.tune.budget;
  second.input.earlier.pop_back();  // the confirmation
  int blocks = 0;
  second.job.fault = [&](const Configuration&) -> std::optional<Error> {
    if (++blocks > 6) second.job.step_ns = 2'000'000'000;  // those of the baseline were short
    return std::nullopt;
  };
  const auto continued = second.run();
  ASSERT_TRUE(continued);
  EXPECT_EQ(continued->best, whole->best);
  EXPECT_GE(continued->speedup.pairs, 7);
}

TEST(Session, NearTheCeilingOfLoadingItIsLeftAlone) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.ceiling_ratio = 1.0;
  simulation.job.metrics = [](const Configuration&) {
    return Json{{"step.data_wait_ratio", 0.01}};
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 0);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
  EXPECT_THAT(simulation.ledger.events,
              Contains(HasSubstr("answered loading: skipped: loader.workers=2 speeds up loading")));
}

TEST(Session, WaitingForDataSpeaksAgainstANoisyCeiling) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.job.ceiling_ratio = 1.0;  // while the profile says that half of the step is waiting
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
}

TEST(Session, TooMuchMemoryIsRejected) {
  Simulation simulation;
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}});
  simulation.job.peak_memory_bytes = 3LL << 30;
  simulation.input.recipe.tune.memory_limit_bytes = 1LL << 30;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::rejected);
  EXPECT_THAT(outcome->trials[0].reason, HasSubstr("3.0 GiB"));
}

TEST(Session, CancellingLeavesAnInterruptedTrial) {
  Simulation reference;
  add_three_plugins(reference);
  ASSERT_TRUE(reference.run());
  int interrupted = 0;
  for (int block = 1; block <= reference.job.blocks; ++block) {
    Simulation simulation;
    add_three_plugins(simulation);
    simulation.job.cancel_at_block = block;
    const auto outcome = simulation.run();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
    for (const auto& [number, trial] : simulation.ledger.trials) {
      EXPECT_NE(trial.verdict, Verdict::running) << number;
      interrupted += trial.verdict == Verdict::interrupted ? 1 : 0;
    }
  }
  // One for every block that belongs to a trial.
  int wanted = 0;
  for (const auto& [number, blocks] : reference.ledger.blocks)
    wanted += blocks;
  EXPECT_EQ(interrupted, wanted);
}

TEST(Session, ALedgerThatFailsEndsIt) {
  Simulation reference;
  add_three_plugins(reference);
  ASSERT_TRUE(reference.run());
  for (int call = 1; call <= reference.ledger.calls; ++call) {
    Simulation simulation;
    add_three_plugins(simulation);
    simulation.ledger.fail_at_call = call;
    const auto outcome = simulation.run();
    ASSERT_FALSE(outcome) << call;
    EXPECT_EQ(outcome.error().kind, ErrorKind::disk_full);
    EXPECT_EQ(simulation.ledger.calls, call) << "acted on what could not be remembered";
  }
}

TEST(Session, IsTheSameAfterADeathAtAnyPoint) {
  Simulation reference;
  add_three_plugins(reference);
  const auto wanted = reference.run();
  ASSERT_TRUE(wanted);
  for (int call = 1; call < reference.ledger.calls; ++call) {
    Simulation first;
    add_three_plugins(first);
    first.ledger.die_after_call = call;
    ASSERT_FALSE(first.run());

    Simulation second;
    add_three_plugins(second);
    second.ledger.trials = first.ledger.trials;
    first.ledger.pass_on(second.input);
    const auto outcome = second.run();
    ASSERT_TRUE(outcome) << call;
    EXPECT_EQ(outcome->best, wanted->best) << call;
    // Medians of seven pairs or a few more, each with noise of its own.
    EXPECT_NEAR(outcome->speedup.ratio, wanted->speedup.ratio, 0.06) << call;
    // No trial is run twice, but the one that was interrupted.
    EXPECT_EQ(outcome->trials.size(), wanted->trials.size()) << call;
    EXPECT_LE(second.ledger.trials.size(), wanted->trials.size() + 1) << call;
  }
}

TEST(Session, AContinuedFallBackGoesOnFallingBack) {
  Simulation simulation;
  add_three_plugins(simulation);
  ASSERT_TRUE(simulation.run());
  Simulation continued;
  add_three_plugins(continued);
  simulation.ledger.pass_on(continued.input);
  ASSERT_EQ(continued.input.earlier.back().kind, TrialKind::confirmation);
  continued.input.earlier.back().verdict = Verdict::rejected;
  const auto outcome = continued.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "off");
  EXPECT_THAT(continued.advisors.situations, IsEmpty());
}

TEST(Session, AKnownBestThatHoldsIsUsedAtOnce) {
  Simulation simulation;
  add_three_plugins(simulation);
  Configuration known = simulation.input.starting;
  known.set("loader.workers", std::int64_t{2});
  simulation.input.known_best = known;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->is_from_history);
  EXPECT_EQ(outcome->best, known);
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].kind, TrialKind::verification);
  EXPECT_THAT(simulation.advisors.situations, IsEmpty());
  EXPECT_GT(outcome->ceiling.samples_per_second, 0.0);
  EXPECT_LT(outcome->tuning_time, seconds(6));
}

TEST(Session, AKnownBestThatDoesNotHoldIsSearchedFor) {
  Simulation simulation;
  add_three_plugins(simulation);
  Configuration known = simulation.input.starting;
  known.set("loader.workers", std::int64_t{4});
  simulation.input.known_best = known;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->is_from_history);
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
}

TEST(Session, AKnownBestThatIsNoLongerPermittedIsNotTried) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.recipe.tune.allow = {};
  simulation.advisors.plugins.erase("precision");
  Configuration known = simulation.input.starting;
  known.set("precision.autocast", std::string("bf16"));
  simulation.input.known_best = known;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->trials[0].kind, TrialKind::proposal);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "off");
}

}  // namespace
}  // namespace autotuned::tuner
