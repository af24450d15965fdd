// SPDX-License-Identifier: Apache-2.0
// Which changes a run tries where its budget does not suffice for all of them, and how long its confirmation takes then.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr const char* kSetting = "env.PLACEBO_SETTING";
constexpr milliseconds kStart(1100);
// Two starts, and blocks for half as long.
constexpr nanoseconds kProcessPair = 3 * kStart;

SimulatedAdvisors::Plugin restart_once(double gain) {
  return [gain](const Json& situation) -> Result<Json> {
    if (situation["incumbent"].contains(kSetting)) return none("it is set");
    for (const Json& trial : situation["trials"]) {
      if (trial["change"].contains(kSetting)) return none("it was tried");
    }
    return propose({{kSetting, "1"}}, gain);
  };
}

// A change that needs processes, 1.3 times as fast, and three live ones, which give more. Of the first as much is expected as
// the test says.
void add_one_restart_and_three_live(Simulation& simulation, double expected_of_restart) {
  simulation.job.restart_knobs = {kSetting};
  simulation.job.start_duration = kStart;
  simulation.input.start_time = kStart;
  simulation.advisors.plugins["restart"] = restart_once(expected_of_restart);
  simulation.advisors.plugins["format"] = once({{"layout.memory_format", "channels_last"}}, 1.2);
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.2);
  simulation.advisors.plugins["precision"] = once({{"precision.autocast", "bf16"}}, 1.2);
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_setting(configuration) *
           faster_with(configuration, "layout.memory_format", std::string("channels_last"), 1.4) *
           faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5) *
           faster_with(configuration, "precision.autocast", std::string("bf16"), 1.6);
  };
}

bool is_restart(const TrialRecord& trial) {
  return trial.kind == TrialKind::proposal && trial.change.find(kSetting) != nullptr;
}

// The restart change and its confirmation would take 54 s of the 60.
TEST(SmallBudget, LiveChangesComeFirstWhereTheyPromiseMoreForTheirTime) {
  Simulation simulation;
  add_one_restart_and_three_live(simulation, /*expected_of_restart=*/1.4);
  simulation.input.recipe.tune.budget = seconds(60);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(is_restart(outcome->trials.at(i))) << i;
    EXPECT_EQ(outcome->trials.at(i).verdict, Verdict::accepted) << outcome->trials.at(i).reason;
  }
  EXPECT_EQ(outcome->best.text("layout.memory_format"), "channels_last");
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
  EXPECT_NEAR(outcome->speedup.ratio, 1.4 * 1.5 * 1.6, 0.1);
  EXPECT_EQ(outcome->trials.back().kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->trials.back().process_pairs, 0) << "live switches suffice for what is kept";
  EXPECT_TRUE(outcome->is_budget_spent) << "the restart change is left";
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_LE(outcome->tuning_time, seconds(60));
  EXPECT_TRUE(outcome->trials_beyond_budget.empty());
}

// Without the steps that warm its processes, the restart change and its confirmation would take 54 s of the 80, and all
// trials would fit.
TEST(SmallBudget, LiveChangesComeFirstWhereWarmingFillsTheBudget) {
  Simulation simulation;
  add_one_restart_and_three_live(simulation, /*expected_of_restart=*/1.4);
  simulation.job.warm_up_duration = kStart / 2;
  simulation.input.recipe.tune.budget = seconds(80);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->best.text("layout.memory_format"), "channels_last");
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
  EXPECT_LE(outcome->tuning_time, seconds(80) + 2 * kProcessPair);
}

// The figures of bench/jobs/large_mlp_adamw.yaml on two cores, with three of its changes: a process takes twice as
// long to become warm as to start, and checks take seconds.
void add_changes_of_a_large_mlp(Simulation& simulation) {
  simulation.job.restart_knobs = {kSetting};
  simulation.job.step_ns = 150'000'000;
  simulation.job.start_duration = milliseconds(700);
  simulation.job.warm_up_duration = milliseconds(1450);
  simulation.job.trace_duration = seconds(9);
  simulation.input.start_time = simulation.job.start_duration;
  simulation.advisors.plugins["malloc"] = restart_once(1.42);
  simulation.advisors.plugins["optimizer"] = once({{"optimizer.fused", true}}, 1.3);
  simulation.advisors.plugins["gradients"] = once({{"optimizer.set_to_none", true}}, 1.03);
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_setting(configuration) *
           faster_with(configuration, "optimizer.fused", true, 1.5) *
           faster_with(configuration, "optimizer.set_to_none", true, 1.04);
  };
  simulation.job.updates = [&simulation](const Configuration&, const Configuration& candidate,
                                         std::int64_t steps) {
    if (candidate.find(kSetting) != nullptr) simulation.clock.advance(seconds(5));
    return SimulatedBackend::equal(steps);
  };
}

// The trial in fresh processes takes a minute, of which less than half would be known without their warming.
TEST(SmallBudget, TheLargerExpectedGainComesFirstWhereThereIsTimeForItsProcesses) {
  Simulation simulation;
  add_changes_of_a_large_mlp(simulation);
  simulation.input.recipe.tune.budget = minutes(10);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_FALSE(outcome->trials.empty());
  const TrialRecord& first = outcome->trials.front();
  EXPECT_TRUE(is_restart(first));
  EXPECT_EQ(first.verdict, Verdict::accepted) << first.reason;
  EXPECT_NEAR(static_cast<double>(first.duration_ns) / 1e9, 60.0, 5.0);
  EXPECT_TRUE(outcome->best.flag("optimizer.fused"));
}

TEST(SmallBudget, TheOptimizerOfALargeMlpComesBeforeTheProcessesThatFillTheBudget) {
  Simulation simulation;
  add_changes_of_a_large_mlp(simulation);
  simulation.input.recipe.tune.budget = seconds(120);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials.at(0).plugin, "optimizer");
  EXPECT_EQ(outcome->trials.at(0).verdict, Verdict::accepted) << outcome->trials.at(0).reason;
  EXPECT_EQ(outcome->trials.at(1).plugin, "gradients");
  EXPECT_TRUE(outcome->best.flag("optimizer.fused"));
  EXPECT_EQ(outcome->trials.back().kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->trials.back().verdict, Verdict::accepted) << outcome->trials.back().reason;
  EXPECT_LE(outcome->tuning_time, seconds(120));
}

// Before any process of a trial has started, from what the job's own process took.
TEST(SmallBudget, TheTimeOfATrialInProcessesIsKnownBefore) {
  Simulation simulation;
  add_changes_of_a_large_mlp(simulation);
  const Configuration& starting = simulation.input.starting;
  Configuration candidate = starting;
  candidate.set(kSetting, std::string("1"));
  ASSERT_TRUE(simulation.job.run_block(starting, {}));
  const Baseline baseline{.samples_per_second = 1000.0, .pair_time = milliseconds(300)};
  const Budget budget(minutes(10), nanoseconds(0), simulation.clock);
  TrialSeries series(simulation.input, baseline, budget, simulation.job, simulation.ledger,
                     simulation.clock);
  const nanoseconds starts = 2 * (milliseconds(700) + milliseconds(1450));
  EXPECT_EQ(series.process_start_time(), starts);
  constexpr int kFewest = 7;
  const nanoseconds least = series.least_trial_time(kFewest, starting, candidate);
  EXPECT_EQ(least, starts + kFirstLookPairs * milliseconds(300) + kFewest * (starts + starts / 2));
  EXPECT_EQ(series.least_trial_time(kFewest, starting, starting), kFewest * milliseconds(300));

  TrialPlan plan = series.new_plan(0.01, 0.05);
  plan.time_share = plan.most_time = seconds(60);
  plan.is_checked = false;
  const auto done = series.run(series.new_trial(TrialKind::proposal, starting, candidate), plan);
  ASSERT_TRUE(done) << done.error().message();
  const TrialRecord& trial = series.records().back();
  EXPECT_EQ(trial.verdict, Verdict::accepted) << trial.reason;
  EXPECT_EQ(trial.process_pairs, 1 + kFewest);
  const double taken = static_cast<double>(trial.duration_ns) / static_cast<double>(least.count());
  EXPECT_GT(taken, 0.85);
  EXPECT_LT(taken, 1.1);
}

TEST(SmallBudget, WhereThereIsTimeForAllTheExpectedGainDecides) {
  Simulation simulation;
  add_one_restart_and_three_live(simulation, /*expected_of_restart=*/1.4);
  simulation.input.recipe.tune.budget = minutes(10);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_FALSE(outcome->trials.empty());
  EXPECT_TRUE(is_restart(outcome->trials[0]));
  EXPECT_NEAR(outcome->speedup.ratio, 1.3 * 1.4 * 1.5 * 1.6, 0.2);
  EXPECT_TRUE(outcome->is_complete);
}

// Where so much is expected of the restart change that it is worth nearly the whole budget, what is left beside its confirmation
// still goes to a live change.
TEST(SmallBudget, WhatIsLeftBesideAConfirmationInProcessesGoesToLiveChanges) {
  Simulation simulation;
  add_one_restart_and_three_live(simulation, /*expected_of_restart=*/5.0);
  simulation.input.recipe.tune.budget = seconds(60);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 3U);
  EXPECT_TRUE(is_restart(outcome->trials[0]));
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::accepted) << outcome->trials[0].reason;
  EXPECT_FALSE(is_restart(outcome->trials[1]));
  EXPECT_EQ(outcome->trials[1].verdict, Verdict::accepted) << outcome->trials[1].reason;
  const TrialRecord& last = outcome->trials.back();
  EXPECT_EQ(last.kind, TrialKind::confirmation);
  EXPECT_EQ(last.verdict, Verdict::accepted) << last.reason;
  EXPECT_EQ(last.process_pairs, 7) << "the whole, in fresh processes";
  EXPECT_EQ(last.reference, simulation.input.starting);
  EXPECT_NE(outcome->best.find(kSetting), nullptr);
  EXPECT_LE(outcome->tuning_time, seconds(60));
}

// Blocks so noisy that those of each pair of processes last as long as they may.
TEST(SmallBudget, AConfirmationInProcessesIsPartOfIt) {
  for (const int budget_s : {40, 50, 60, 75, 90, 120, 180}) {
    Simulation simulation;
    add_one_restart_and_three_live(simulation, /*expected_of_restart=*/5.0);
    simulation.job.noise = 0.05;
    simulation.input.recipe.tune.budget = seconds(budget_s);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    ASSERT_FALSE(outcome->trials.empty()) << budget_s;
    const TrialRecord& last = outcome->trials.back();
    EXPECT_EQ(last.kind, TrialKind::confirmation) << budget_s;
    EXPECT_EQ(last.verdict, Verdict::accepted) << budget_s << ": " << last.reason;
    EXPECT_LE(outcome->tuning_time, seconds(budget_s) + kProcessPair) << budget_s;
    if (budget_s >= 60) {
      EXPECT_NE(outcome->best.find(kSetting), nullptr) << budget_s;
      EXPECT_GE(last.process_pairs, 7) << budget_s;
    }
  }
}

// A start of the job that was faster than those of the trial: the time for the confirmation grows with them.
TEST(SmallBudget, AConfirmationInProcessesHasItsTimeWhereTheyStartMoreSlowlyThanTheJobDid) {
  for (const int budget_s : {60, 90, 120}) {
    Simulation simulation;
    add_one_restart_and_three_live(simulation, /*expected_of_restart=*/5.0);
    simulation.input.start_time = milliseconds(100);
    simulation.input.recipe.tune.budget = seconds(budget_s);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_LE(outcome->tuning_time, seconds(budget_s) + kProcessPair) << budget_s;
    EXPECT_GT(outcome->speedup.low, 1.0) << budget_s;
  }
}

// A compiler takes its minute within the first block. Its trial does not begin in a budget that does not hold that, and other
// trials do.
TEST(SmallBudget, HoldsWhatAChangeTakesBeforeItsFirstStep) {
  for (const int budget_s : {50, 70, 120}) {
    Simulation simulation;
    simulation.advisors.plugins["compiler"] = [](const Json& situation) -> Result<Json> {
      auto answer = once({{"precision.autocast", "bf16"}}, 1.5)(situation);
      if (answer && !answer->at("candidates").empty()) {
        (*answer)["candidates"][0]["preparation_s"] = 60;
      }
      return answer;
    };
    simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.2);
    simulation.job.rate = [](const Configuration& configuration) {
      return 1000.0 * faster_with(configuration, "precision.autocast", std::string("bf16"), 1.5) *
             faster_with(configuration, "loader.workers", std::int64_t{2}, 1.2);
    };
    simulation.input.recipe.tune.budget = seconds(budget_s);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(outcome->best.integer("loader.workers"), 2) << budget_s;
    const bool is_tried = outcome->best.text("precision.autocast") == "bf16";
    EXPECT_EQ(is_tried, budget_s == 120) << budget_s;
    EXPECT_EQ(outcome->is_budget_spent, !is_tried) << budget_s;
    EXPECT_EQ(outcome->is_complete, is_tried) << budget_s;
    if (is_tried) continue;
    ASSERT_EQ(outcome->untried.size(), 1U) << budget_s;
    EXPECT_EQ(outcome->untried[0].plugin, "compiler");
  }
}

// The change is compiled again in the second trial.
TEST(SmallBudget, HoldsWhatASecondLookTakesBeforeItsFirstStep) {
  for (const int preparation_s : {0, 60}) {
    Simulation simulation;
    simulation.advisors.plugins["compiler"] = [=](const Json& situation) -> Result<Json> {
      auto answer = once({{"precision.autocast", "bf16"}}, 1.5)(situation);
      if (answer && !answer->at("candidates").empty()) {
        (*answer)["candidates"][0]["preparation_s"] = preparation_s;
      }
      return answer;
    };
    simulation.job.rate = [](const Configuration& configuration) {
      return rate_with_bf16(configuration, 1.5);
    };
    bool is_disturbed = false;
    simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
      if (is_disturbed || configuration.text("precision.autocast") != "bf16") return std::nullopt;
      is_disturbed = true;
      simulation.clock.advance(seconds(60));
      return disturbance();
    };
    simulation.input.recipe.tune.budget = seconds(120);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(outcome->trials.size() > 1, preparation_s == 0);
    EXPECT_EQ(outcome->is_budget_spent, preparation_s > 0);
  }
}

// So noisy that the interval of the confirmation is never as narrow as it should be.
TEST(SmallBudget, AConfirmationInOneProcessEndsWithIt) {
  for (const int budget_s : {15, 20, 30, 60}) {
    Simulation simulation;
    simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
    simulation.job.noise = 0.2;
    simulation.job.rate = [](const Configuration& configuration) {
      return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 3.0);
    };
    simulation.input.recipe.tune.budget = seconds(budget_s);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    ASSERT_FALSE(outcome->trials.empty()) << budget_s;
    EXPECT_EQ(outcome->trials.back().kind, TrialKind::confirmation) << budget_s;
    // A pair at its end, and the one before the clock of the trial begins.
    EXPECT_LE(outcome->tuning_time, seconds(budget_s) + milliseconds(500)) << budget_s;
  }
}

// After the trial of the change each step takes ten seconds. The ablation has no budget.
TEST(SmallBudget, TheTrialThatEndsAfterItIsKnown) {
  Simulation simulation;
  const SimulatedAdvisors::Plugin proposing = once({{"loader.workers", 2}}, 1.5);
  simulation.advisors.plugins["loading"] = [&](const Json& situation) -> Result<Json> {
    if (!situation["trials"].empty()) simulation.job.step_ns = 10'000'000'000;
    return proposing(situation);
  };
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 3.0);
  };
  simulation.input.recipe.tune.budget = seconds(60);
  simulation.input.is_ablated = true;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[1].kind, TrialKind::confirmation);
  EXPECT_GT(outcome->tuning_time, seconds(60));
  EXPECT_EQ(outcome->trials_beyond_budget, std::vector<int>{2});
}

// Such a trial begins with a look like the first one, here of ten long blocks, before it has evidence.
TEST(SmallBudget, ASecondLookAtProcessesHasTimeForAVerdict) {
  int second_looks = 0;
  for (int budget_s = 80; budget_s <= 130; ++budget_s) {
    Simulation simulation;
    simulation.job.restart_knobs = {kSetting};
    simulation.job.start_duration = kStart;
    simulation.job.step_ns = 500'000'000;
    simulation.job.rate = rate_with_setting;
    simulation.input.start_time = kStart;
    simulation.input.recipe.tune.budget = seconds(budget_s);
    TrialRecord first;
    first.number = simulation.input.next_trial_number++;
    first.plugin = "restart";
    first.reference = simulation.input.starting;
    first.change.set(kSetting, std::string("1"));
    first.verdict = Verdict::rejected;
    first.rejection = RejectionReason::undecided_in_time;
    first.estimate = {.ratio = 1.1, .low = 0.95, .high = 1.2, .pairs = 5};
    first.process_pairs = 1;
    simulation.input.earlier.push_back(first);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    for (const TrialRecord& trial : outcome->trials) {
      if (trial.number == first.number || trial.kind != TrialKind::proposal) continue;
      ++second_looks;
      EXPECT_THAT(trial.reason, testing::Not(testing::HasSubstr("is too short"))) << budget_s;
    }
  }
  EXPECT_GT(second_looks, 0);
}

// Of two changes that ended undecided, one needs processes, for which too little is left: that must not keep the other from its
// second look.
TEST(SmallBudget, ASecondLookThatDoesNotFitLeavesTheTimeToTheNextOne) {
  Simulation simulation;
  simulation.job.restart_knobs = {kSetting};
  simulation.job.start_duration = kStart;
  simulation.input.start_time = kStart;
  simulation.advisors.plugins["both"] = [](const Json&) -> Result<Json> {
    return none("both were tried");
  };
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_setting(configuration) *
           faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
  TrialRecord restart;
  restart.number = 1;
  restart.plugin = "both";
  restart.reference = simulation.input.starting;
  restart.change.set(kSetting, std::string("1"));
  restart.verdict = Verdict::rejected;
  restart.rejection = RejectionReason::undecided_in_time;
  restart.estimate = {.ratio = 1.6, .low = 0.9, .high = 1.9, .pairs = 10};
  restart.process_pairs = 1;
  TrialRecord live = restart;
  live.number = 2;
  live.change = Configuration();
  live.change.set("loader.workers", std::int64_t{2});
  live.estimate.ratio = 1.4;
  live.process_pairs = 0;
  simulation.input.earlier = {restart, live};
  simulation.input.recipe.tune.budget = seconds(60);
  simulation.input.earlier_tuning_time = seconds(36);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 3U);
  EXPECT_EQ(outcome->trials.at(2).change, live.change);
  EXPECT_EQ(outcome->trials.at(2).verdict, Verdict::accepted) << outcome->trials.at(2).reason;
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_TRUE(outcome->is_budget_spent) << "the restart change is left";
  EXPECT_FALSE(outcome->is_complete);
}

}  // namespace
}  // namespace autotuned::tuner
