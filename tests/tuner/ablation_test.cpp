// SPDX-License-Identifier: Apache-2.0
// `run --ablate`: the last step of a session.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::seconds;

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
  EXPECT_EQ(ablations["allocator"].reference.text("env.PLACEBO_SETTING"), "");
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

}  // namespace
}  // namespace autotuned::tuner
