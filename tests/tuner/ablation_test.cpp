// SPDX-License-Identifier: Apache-2.0
// The whole against itself without one change: of marginal changes before the confirmation, and of all that is kept with
// `run --ablate`, the last step of a session.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/tuner/simulation.hpp"
#include "tuner/baseline.hpp"
#include "tuner/budget.hpp"
#include "tuner/confirmation.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::Not;

// What each kept change gives at the end, told apart from what was tried.
TEST(Ablation, MeasuresEachKeptChange) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.advisors.plugins["allocator"] = [](const Json& situation) -> Result<Json> {
    if (situation["incumbent"].contains("env.PLACEBO_SETTING")) return none("it is set");
    return propose({{"env.PLACEBO_SETTING", "1"}}, 1.2);
  };
  // Two changes overlap: together they give no more than the first. The variable gave something only
  // as long as the loader was slow.
  simulation.job.rate = [](const Configuration& configuration) {
    const bool is_loading_fast = configuration.integer("loader.workers") == 2;
    const KnobValue* const setting = configuration.find("env.PLACEBO_SETTING");
    const bool is_set = setting != nullptr && to_text(*setting) == "1";
    return 1000.0 * (is_loading_fast ? 1.5 : 1.0) *
           faster_with(configuration, "precision.autocast", std::string("bf16"), 1.3) *
           (is_set ? 1.1 : 1.0);
  };
  const auto before = simulation.run();
  ASSERT_TRUE(before);
  EXPECT_EQ(std::ranges::count(before->trials, TrialKind::ablation, &TrialRecord::kind), 0);

  Simulation again;
  again.advisors.plugins = simulation.advisors.plugins;
  again.job.rate = simulation.job.rate;
  again.input.is_ablated = true;
  const auto outcome = again.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->best, before->best);
  EXPECT_NEAR(outcome->speedup.ratio, 1.5 * 1.3 * 1.1, 0.05);
  std::map<std::string, TrialRecord> ablations;
  for (const TrialRecord& trial : outcome->trials) {
    if (trial.kind == TrialKind::ablation) ablations[trial.plugin] = trial;
  }
  ASSERT_EQ(ablations.size(), 3U);
  EXPECT_NEAR(ablations["loading"].estimate.ratio, 1.5, 0.03);
  EXPECT_NEAR(ablations["precision"].estimate.ratio, 1.3, 0.03);
  EXPECT_NEAR(ablations["allocator"].estimate.ratio, 1.1, 0.03);
  EXPECT_EQ(ablations["allocator"].reference.find("env.PLACEBO_SETTING"), nullptr);
  for (const auto& [plugin, trial] : ablations) {
    EXPECT_EQ(trial.verdict, Verdict::accepted);
    EXPECT_EQ(trial.reference.with(trial.change), outcome->best);
    EXPECT_EQ(again.ledger.trials.at(trial.number).kind, TrialKind::ablation);
  }
  // It is no part of tuning.
  EXPECT_LT(outcome->tuning_time, again.clock.now() - seconds(3));
}

TEST(Ablation, TellsWhatGivesNothingAnyMore) {
  Simulation simulation;
  simulation.input.is_ablated = true;
  simulation.advisors.plugins["first"] = once({{"loader.workers", 1}}, 1.9);
  simulation.advisors.plugins["second"] = once({{"transfer.dtype", "uint8"}}, 1.5);
  simulation.job.rate = [](const Configuration& configuration) {
    if (configuration.text("transfer.dtype") == "uint8") return 2000.0;
    return configuration.integer("loader.workers") == 1 ? 1500.0 : 1000.0;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  const TrialRecord& of_first = *std::ranges::find_if(outcome->trials, [](const auto& trial) {
    return trial.kind == TrialKind::ablation && trial.plugin == "first";
  });
  EXPECT_EQ(of_first.verdict, Verdict::rejected);
  EXPECT_NEAR(of_first.estimate.ratio, 1.0, 0.02);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 1) << "it only tells";
  EXPECT_NEAR(outcome->speedup.ratio, 2.0, 0.05);
}

TEST(Ablation, GoesOnWhereItStopped) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.is_ablated = true;
  ASSERT_TRUE(simulation.run());
  Simulation next;
  add_three_plugins(next);
  next.input.is_ablated = true;
  simulation.ledger.pass_on(next.input);
  next.input.earlier.pop_back();  // the last of the ablations
  const auto outcome = next.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(next.ledger.trials.size(), 1U) << "only what was missing is measured";
  EXPECT_EQ(next.ledger.trials.begin()->second.kind, TrialKind::ablation);
  EXPECT_NEAR(outcome->speedup.ratio, 1.95, 0.05);
}

TEST(Ablation, OfAKnownBestGoesKnobByKnob) {
  Simulation simulation;
  add_three_plugins(simulation);
  simulation.input.is_ablated = true;
  Configuration best = simulation.input.starting;
  best.set("loader.workers", std::int64_t{2});
  best.set("precision.autocast", std::string("bf16"));
  simulation.input.known_best = best;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->is_from_history);
  ASSERT_EQ(outcome->trials.size(), 3U);
  EXPECT_EQ(outcome->trials[1].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[2].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[1].plugin, "autotuned");
  EXPECT_NEAR(outcome->speedup.ratio, 1.95, 0.05);
}

// Two changes of which each makes up for the other: the second was accepted by little, and gives nothing in the whole.
TEST(MarginalChange, WhatWasAcceptedByLittleIsLookedAtAgain) {
  Simulation simulation;
  simulation.advisors.plugins["large"] = once({{"precision.autocast", "bf16"}}, 1.9);
  simulation.advisors.plugins["small"] = once({{"loader.workers", 2}}, 1.2);
  simulation.job.noise = 0.02;
  simulation.job.rate = [&](const Configuration& configuration) {
    const bool is_small_tried = simulation.ledger.trials.contains(2) &&
                                simulation.ledger.trials.at(2).verdict != Verdict::running;
    return rate_with_bf16(configuration, 1.5) * faster_with(configuration, "loader.workers",
                                                            std::int64_t{2},
                                                            is_small_tried ? 0.995 : 1.03);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_GE(outcome->trials.size(), 4U);
  ASSERT_EQ(outcome->trials[1].verdict, Verdict::accepted);
  ASSERT_LT(outcome->trials[1].estimate.low, 1.01);
  EXPECT_EQ(outcome->trials[2].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[2].plugin, "small");
  EXPECT_EQ(outcome->trials[2].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->trials[3].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 0);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
}

// By an earlier process, with this lower end.
void add_accepted(Simulation& simulation, const char* knob, const char* value, double low) {
  std::vector<TrialRecord>& earlier = simulation.input.earlier;
  TrialRecord trial;
  trial.number = simulation.input.next_trial_number++;
  trial.plugin = knob;
  trial.reference = earlier.empty() ? simulation.input.starting
                                    : earlier.back().reference.with(earlier.back().change);
  trial.change.set(knob, std::string(value));
  trial.verdict = Verdict::accepted;
  trial.estimate = {.ratio = low + 0.03, .low = low, .high = low + 0.1, .pairs = 50};
  earlier.push_back(trial);
}

// An earlier process accepted two changes, the second by little; the processes that are there when this one goes on do not
// show what the second gives, fresh ones do.
TEST(MarginalChange, WhatWasAcceptedByLittleIsNotGivenUpByAFirstLook) {
  Simulation simulation;
  simulation.job.noise = 0.0;
  simulation.job.restart_knobs = {"env.PLACEBO_SETTING"};
  add_accepted(simulation, "precision.autocast", "bf16", 1.4);
  add_accepted(simulation, "env.PLACEBO_SETTING", "1", 1.005);
  bool is_fresh = false;
  std::vector<ProcessChoice> of_ablation;
  simulation.job.start_fault = [&](const Configuration&,
                                   ProcessChoice process) -> std::optional<Error> {
    is_fresh = process == ProcessChoice::fresh;
    const auto third = simulation.ledger.trials.find(3);
    if (third != simulation.ledger.trials.end() && third->second.verdict == Verdict::running) {
      of_ablation.push_back(process);
    }
    return std::nullopt;
  };
  simulation.job.rate = [&](const Configuration& configuration) {
    const bool shows_gain = is_fresh && rate_with_setting(configuration) > 1000.0;
    return rate_with_bf16(configuration, 1.5) * (shows_gain ? 1.03 : 1.0);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 3U);
  EXPECT_EQ(outcome->trials[2].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[2].plugin, "env.PLACEBO_SETTING");
  EXPECT_EQ(outcome->trials[2].verdict, Verdict::accepted) << outcome->trials[2].reason;
  EXPECT_THAT(of_ablation, Not(Contains(ProcessChoice::reuse)));
  EXPECT_FALSE(of_ablation.empty());
  EXPECT_NE(outcome->best.find("env.PLACEBO_SETTING"), nullptr);
}

// The search leaves eight pairs of fresh processes for the confirmation, so an ablation must not wait for ten.
TEST(MarginalChange, LeavesTheConfirmationTheTimeThatTheSearchLeaves) {
  for (const bool is_enough : {true, false}) {
    Simulation simulation;
    simulation.job.restart_knobs = {"env.PLACEBO_SETTING"};
    simulation.input.start_time = seconds(1);
    add_accepted(simulation, "precision.autocast", "bf16", 1.4);
    add_accepted(simulation, "env.PLACEBO_SETTING", "1", 1.005);
    const Baseline baseline{.samples_per_second = 1000.0,
                            .pair_time = std::chrono::milliseconds(200)};
    const std::chrono::nanoseconds needed =
        (kConfirmationProcessPairs + kMinTrialPairs) *
        least_process_pair_time(2 * simulation.input.start_time, baseline.pair_time);
    const Budget budget(is_enough ? needed : needed - std::chrono::nanoseconds(1),
                        std::chrono::nanoseconds(0), simulation.clock);
    TrialSeries series(simulation.input, baseline, budget, simulation.job, simulation.ledger,
                       simulation.clock);
    Incumbent incumbent(simulation.input.starting);
    for (const TrialRecord& trial : simulation.input.earlier) {
      series.add_earlier(trial);
      incumbent.accept(trial.reference.with(trial.change));
    }
    const auto done = drop_marginal(simulation.input, budget, series, incumbent);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(series.records().size(), is_enough ? 3U : 2U);
  }
}

// A variable that is dropped leaves no trace: neither in what is kept nor in what is told of it.
TEST(MarginalChange, AVariableThatWasAcceptedByLittleIsDroppedWhole) {
  Simulation simulation;
  simulation.job.restart_knobs = {"env.PLACEBO_SETTING"};
  add_accepted(simulation, "precision.autocast", "bf16", 1.4);
  add_accepted(simulation, "env.PLACEBO_SETTING", "1", 1.005);
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_bf16(configuration, 1.5);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 4U);
  EXPECT_EQ(outcome->trials[2].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[2].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->trials[3].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->trials[3].process_pairs, 0) << "one process has both";
  Configuration bf16;
  bf16.set("precision.autocast", std::string("bf16"));
  EXPECT_EQ(outcome->best, simulation.input.starting.with(bf16));
}

// Who proposed the others is known all the same.
TEST(MarginalChange, ThatIsDroppedTakesNoNameAlong) {
  Simulation simulation;
  simulation.input.is_ablated = true;
  simulation.job.restart_knobs = {"env.PLACEBO_SETTING"};
  add_accepted(simulation, "env.PLACEBO_SETTING", "1", 1.005);
  add_accepted(simulation, "precision.autocast", "bf16", 1.4);
  add_accepted(simulation, "layout.memory_format", "channels_last", 1.2);
  simulation.job.rate = [](const Configuration& configuration) {
    return rate_with_bf16(configuration, 1.5) *
           faster_with(configuration, "layout.memory_format", std::string("channels_last"), 1.3);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 7U);
  EXPECT_EQ(outcome->trials[3].plugin, "env.PLACEBO_SETTING");
  EXPECT_EQ(outcome->trials[3].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->trials[4].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome->trials[5].plugin, "layout.memory_format");
  EXPECT_EQ(outcome->trials[6].plugin, "precision.autocast");
}

// A plugin that proposes `first`, and `second` once that was tried. The second is accepted by little, and gives nothing
// as soon as it was.
void add_two_of_one_plugin(Simulation& simulation, const Json& first, const Json& second) {
  simulation.advisors.plugins["both"] = [first, second](const Json& situation) -> Result<Json> {
    const std::size_t tried = situation["trials"].size();
    if (tried > 1) return none("that was all");
    return tried == 0 ? propose(first, 1.9) : propose(second, 1.2);
  };
  simulation.job.noise = 0.02;
}

double second_gain(const Simulation& simulation) {
  const auto second = simulation.ledger.trials.find(2);
  const bool is_tried =
      second != simulation.ledger.trials.end() && second->second.verdict != Verdict::running;
  return is_tried ? 0.995 : 1.03;
}

TEST(MarginalChange, OfTwoChangesOfOnePluginTheMarginalOneIsLookedAtAgain) {
  Simulation simulation;
  add_two_of_one_plugin(simulation, {{"precision.autocast", "bf16"}}, {{"loader.workers", 2}});
  simulation.job.rate = [&](const Configuration& configuration) {
    return rate_with_bf16(configuration, 1.5) *
           faster_with(configuration, "loader.workers", std::int64_t{2}, second_gain(simulation));
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_GE(outcome->trials.size(), 4U);
  ASSERT_EQ(outcome->trials[1].verdict, Verdict::accepted);
  ASSERT_LT(outcome->trials[1].estimate.low, 1.01);
  EXPECT_EQ(outcome->trials[2].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[2].change, outcome->trials[1].change);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 0);
  EXPECT_EQ(outcome->best.text("precision.autocast"), "bf16");
}

// What the second gives is asked against the first, and not against the start.
TEST(MarginalChange, OfTwoValuesOfOneKnobTheMarginalOneGivesWayToTheOther) {
  Simulation simulation;
  add_two_of_one_plugin(simulation, {{"loader.workers", 2}}, {{"loader.workers", 3}});
  simulation.job.rate = [&](const Configuration& configuration) {
    const std::int64_t workers = configuration.integer("loader.workers");
    return 1000.0 * (workers < 2 ? 1.0 : 1.5) * (workers == 3 ? second_gain(simulation) : 1.0);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  ASSERT_GE(outcome->trials.size(), 4U);
  ASSERT_EQ(outcome->trials[1].verdict, Verdict::accepted);
  ASSERT_LT(outcome->trials[1].estimate.low, 1.01);
  EXPECT_EQ(outcome->trials[2].kind, TrialKind::ablation);
  EXPECT_EQ(outcome->trials[2].reference.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_NEAR(outcome->speedup.ratio, 1.5, 0.05);
}

}  // namespace
}  // namespace autotuned::tuner
