// SPDX-License-Identifier: Apache-2.0
// What a change costs once, against what it saves in the training that follows.
#include "tuner/one_time_cost.hpp"

#include <gmock/gmock.h>

#include "tests/tuner/simulation.hpp"
#include "tuner/session.hpp"

namespace autotuned::tuner {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kSecond = 1e9;
// The rate of the simulated job: its blocks report a thousand times the rate that a test gives.
constexpr double kStartRate = 1e6;  // samples per second
constexpr std::int64_t kEpochSamples = 60'000;

// Candidate and reference with these rates, accepted.
TrialRecord trial_of(const Configuration& change, double ratio, double one_time_s,
                     double rate = 1000.0) {
  TrialRecord trial;
  trial.change = change;
  trial.verdict = Verdict::accepted;
  trial.estimate = {.ratio = ratio, .low = ratio, .high = ratio, .pairs = 10};
  trial.reference_samples_per_second = rate;
  trial.one_time_ns = static_cast<std::int64_t>(one_time_s * kSecond);
  return trial;
}

Configuration setting(const char* knob, KnobValue value) {
  Configuration change;
  change.set(knob, std::move(value));
  return change;
}

const Configuration kCache = setting("input.cache", std::string("prefix"));
const Configuration kIndex = setting("input.jpeg_index", true);
const Configuration kTwoWorkers = setting("loader.workers", std::int64_t{2});

TEST(Repayment, HoldsTheCostAgainstWhatTheWholeTrainingSaves) {
  // 100 s at the reference's rate, 80 s at the candidate's.
  const TrialRecord dear = trial_of(kCache, 1.25, 30.0);
  const Repayment repayment = repayment_of(dear, 100'000);
  EXPECT_DOUBLE_EQ(repayment.cost_s, 30.0);
  EXPECT_DOUBLE_EQ(repayment.saved_s, 20.0);
  EXPECT_DOUBLE_EQ(repayment.training_s, 100.0);
  EXPECT_FALSE(repayment.is_repaid());
  EXPECT_FALSE(repayment_of(dear, 150'000).is_repaid()) << "not by as much as it costs";
  EXPECT_TRUE(repayment_of(dear, 151'000).is_repaid());
  EXPECT_TRUE(repayment_of(trial_of(kCache, 1.25, 19.0), 100'000).is_repaid());
}

TEST(Repayment, OfNothingIsAlwaysThere) {
  EXPECT_TRUE(repayment_of(trial_of(kCache, 1.25, 0.0), 1).is_repaid());
  EXPECT_TRUE(repayment_of(trial_of(kCache, 0.5, 0.0), 1).is_repaid());
}

TEST(Repayment, IsNotAskedForWhereTheLengthOfTheTrainingIsNotKnown) {
  EXPECT_TRUE(repayment_of(trial_of(kCache, 1.25, 30.0), 0).is_repaid());
  EXPECT_TRUE(repayment_of(trial_of(kCache, 1.25, 30.0, /*rate=*/0.0), 100).is_repaid());
}

TEST(Repayment, WhatIsNotFasterRepaysNothing) {
  const Repayment repayment = repayment_of(trial_of(kCache, 0.8, 1.0), 1'000'000'000);
  EXPECT_EQ(repayment.saved_s, 0.0);
  EXPECT_FALSE(repayment.is_repaid());
}

TEST(TrainingSamples, AreThoseOfTheRecipe) {
  SessionInput input = simulated_input();
  input.recipe.train.epochs = 3;
  EXPECT_EQ(training_samples(input.recipe, input.job_facts), 3 * kEpochSamples);
  EXPECT_EQ(training_samples(input.recipe, Json::object()), 0);
  // Steps are those of the recipe's own batch.
  input.recipe.train.epochs.reset();
  input.recipe.train.steps = 100;
  EXPECT_EQ(training_samples(input.recipe, Json::object()), 3200);
  input.recipe.train.ranks = 4;
  EXPECT_EQ(training_samples(input.recipe, Json::object()), 12800);
}

TEST(TrainingSamples, OfAScriptAreThoseThatAreLeft) {
  const Json facts = {{"samples_left", 640}, {"train_samples", 100}};
  EXPECT_EQ(training_samples(recipes::Recipe{}, facts), 640);
}

// Filled by every CPU before a block, a cache takes less than in a training, whose loader makes the samples as ever.
TEST(ChargedNs, IsAtLeastWhatTheFirstVisitsDoNotSave) {
  const OneTimeCost seen = {.ns = 2 * kSecond, .samples = 5000};
  // Both sides have started as many processes, and one start took so much longer.
  EXPECT_EQ(charged_ns({.ns = 351.0, .samples = 0.0}, 1000.0, 1.5), 0);
  EXPECT_EQ(charged_ns({.ns = 1.5e6, .samples = 0.0}, 1000.0, 1.5), 1'500'000);
  EXPECT_EQ(charged_ns(seen, 1000.0, 1.25), 2'000'000'000) << "they would have saved 1 s";
  EXPECT_EQ(charged_ns(seen, 1000.0, 5.0), 4'000'000'000);
  EXPECT_EQ(charged_ns(seen, 1000.0, 0.5), 2'000'000'000);
  EXPECT_EQ(charged_ns(seen, 0.0, 5.0), 2'000'000'000);
  EXPECT_EQ(charged_ns({}, 1000.0, 5.0), 0);
  // So no training is repaid for a cache that meets each sample once.
  TrialRecord trial = trial_of(kCache, 5.0, 0.0);
  trial.one_time_ns = charged_ns({.ns = 1.0, .samples = 5000}, 1000.0, 5.0);
  EXPECT_FALSE(repayment_of(trial, 5000).is_repaid());
  EXPECT_TRUE(repayment_of(trial, 5001).is_repaid());
}

TEST(KnownOneTime, AddsUpThePartsOfAChange) {
  const std::vector<TrialRecord> trials = {trial_of(kCache, 1.5, 20.0), trial_of(kIndex, 1.2, 3.0),
                                           trial_of(kTwoWorkers, 1.2, 0.0)};
  EXPECT_EQ(known_one_time_ns(trials, kCache), 20'000'000'000);
  EXPECT_EQ(known_one_time_ns(trials, kCache.with(kIndex).with(kTwoWorkers)), 23'000'000'000);
  EXPECT_EQ(known_one_time_ns(trials, kTwoWorkers), 0);
  EXPECT_EQ(known_one_time_ns(trials, setting("input.cache", std::string("raw"))), 0);
  EXPECT_EQ(known_one_time_ns({}, kCache), 0);
}

TEST(KnownOneTime, CountsNoPartTwice) {
  TrialRecord confirmation = trial_of(kCache, 2.0, 40.0);
  confirmation.kind = TrialKind::confirmation;
  const std::vector<TrialRecord> trials = {trial_of(kCache, 1.0, 18.0), trial_of(kCache, 1.5, 20.0),
                                           trial_of(kCache.with(kTwoWorkers), 1.5, 19.0),
                                           confirmation};
  EXPECT_EQ(known_one_time_ns(trials, kCache.with(kTwoWorkers)), 20'000'000'000);
}

TEST(OneTimeWork, IsInTheWordsOfTheKnobs) {
  SessionInput input = simulated_input();
  recipes::Knob quick;
  quick.name = "quick.step";
  quick.default_value = false;
  input.knobs.push_back(quick);
  input.extension_knobs = {"quick.step"};
  const auto work = [&](const Configuration& change) { return one_time_work(input, change); };
  EXPECT_EQ(work(kCache), "making the samples once");
  EXPECT_EQ(work(kCache.with(setting("quick.step", true))),
            "making the samples once and switching on quick.step");
  EXPECT_EQ(work(setting("optimizer.set_to_none", true)), "");
}

TEST(RememberedBest, LosesWhatAShortTrainingDoesNotRepay) {
  const Configuration starting = simulated_input().starting;
  const Configuration best = starting.with(kCache).with(kTwoWorkers);
  // Saves 0.2 ms a sample.
  const std::vector<TrialRecord> trials = {trial_of(kCache, 1.25, 20.0),
                                           trial_of(kTwoWorkers, 1.25, 0.0)};
  EXPECT_EQ(without_unrepaid(best, starting, trials, 101'000), best);
  EXPECT_EQ(without_unrepaid(best, starting, trials, 100'000), starting.with(kTwoWorkers));
  EXPECT_EQ(without_unrepaid(best, starting, trials, 0), best) << "a length that nobody knows";
  EXPECT_EQ(without_unrepaid(best, starting, {}, 1), best);
}

TEST(RememberedBest, LacksWhatALongTrainingRepays) {
  const Configuration starting = simulated_input().starting;
  const Configuration best = starting.with(kTwoWorkers);
  TrialRecord refused = trial_of(kCache, 1.25, 20.0);
  refused.verdict = Verdict::rejected;
  refused.rejection = RejectionReason::not_repaid;
  EXPECT_FALSE(lacks_repaid(best, {refused}, 100'000));
  EXPECT_TRUE(lacks_repaid(best, {refused}, 101'000));
  EXPECT_TRUE(lacks_repaid(best, {trial_of(kCache, 1.25, 20.0)}, 101'000));
  EXPECT_FALSE(lacks_repaid(best.with(kCache), {refused}, 101'000)) << "it is there";
  refused.rejection = RejectionReason::not_same_model;
  EXPECT_FALSE(lacks_repaid(best, {refused}, 101'000));
}

// A cache that doubles the rate and costs half a second, which is repaid by 1,000,000 samples.
class Filling : public testing::Test {
 protected:
  Filling() {
    simulation_.advisors.plugins["cache"] = once(kCache.to_json(), 2.0);
    simulation_.job.rate = [](const Configuration& configuration) {
      return kStartRate / 1e3 *
             faster_with(configuration, "input.cache", std::string("prefix"), 2.0) *
             faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
    };
    simulation_.job.one_time = [this](const Configuration& configuration) {
      return configuration.text("input.cache") == "prefix" ? cost_ : OneTimeCost{};
    };
    simulation_.job.updates = [this](const Configuration&, const Configuration&,
                                     std::int64_t steps) {
      ++checks_;
      return SimulatedBackend::equal(steps);
    };
  }

  SessionOutcome run(std::int64_t epochs) {
    simulation_.input.recipe.train.epochs = epochs;
    const auto outcome = simulation_.run();
    EXPECT_TRUE(outcome) << outcome.error().message();
    return outcome.value_or(SessionOutcome{});
  }

  Simulation simulation_;
  OneTimeCost cost_ = {.ns = 0.5 * kSecond, .samples = 0.0};
  int checks_ = 0;
};

TEST_F(Filling, IsNotKeptWhereTheTrainingIsTooShort) {
  const SessionOutcome outcome = run(10);
  ASSERT_EQ(outcome.trials.size(), 1U);
  const TrialRecord& trial = outcome.trials[0];
  EXPECT_EQ(trial.verdict, Verdict::rejected);
  EXPECT_EQ(trial.rejection, RejectionReason::not_repaid);
  EXPECT_EQ(trial.one_time_ns, 500'000'000);
  EXPECT_NEAR(trial.estimate.ratio, 2.0, 0.05);
  EXPECT_THAT(trial.reason, HasSubstr("making the samples once takes 500 ms"));
  EXPECT_THAT(trial.reason, HasSubstr("that the training takes without it"));
  EXPECT_THAT(trial.reason, HasSubstr("times the rate"));
  EXPECT_EQ(checks_, 0) << "what is not kept needs no check";
  EXPECT_EQ(outcome.best, simulation_.input.starting);
}

TEST_F(Filling, IsKeptWhereTheTrainingRepaysIt) {
  const SessionOutcome outcome = run(100);
  ASSERT_EQ(outcome.trials.size(), 2U);
  EXPECT_EQ(outcome.trials[0].verdict, Verdict::accepted);
  EXPECT_EQ(outcome.trials[0].one_time_ns, 500'000'000);
  EXPECT_EQ(outcome.trials[1].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome.trials[1].one_time_ns, 500'000'000);
  EXPECT_EQ(outcome.best.text("input.cache"), "prefix");
}

TEST_F(Filling, OfSamplesThatComeOnceIsNotKept) {
  cost_ = {.ns = 1.0, .samples = static_cast<double>(kEpochSamples)};
  EXPECT_EQ(run(1).trials.at(0).rejection, RejectionReason::not_repaid);
  EXPECT_EQ(run(2).trials.at(0).verdict, Verdict::accepted);
}

// By then the process has filled it: what the trial saw counts.
TEST_F(Filling, CountsInTheConfirmationWhatTrialsHaveSeen) {
  simulation_.advisors.plugins["workers"] = once(kTwoWorkers.to_json(), 1.5);
  simulation_.job.one_time = [this](const Configuration& configuration) {
    const bool is_first = simulation_.ledger.trials.size() <= 1;
    return is_first && configuration.text("input.cache") == "prefix" ? cost_ : OneTimeCost{};
  };
  const SessionOutcome outcome = run(100);
  ASSERT_EQ(outcome.trials.size(), 3U);
  EXPECT_EQ(outcome.trials[1].change, kTwoWorkers);
  EXPECT_EQ(outcome.trials[1].one_time_ns, 0);
  EXPECT_EQ(outcome.trials[2].kind, TrialKind::confirmation);
  EXPECT_EQ(outcome.trials[2].verdict, Verdict::accepted);
  EXPECT_EQ(outcome.trials[2].one_time_ns, 500'000'000);
}

// The reference needs the same cache: it costs the change nothing.
TEST_F(Filling, OfBothIsChargedToNeither) {
  simulation_.input.recipe.start.set("input.cache", std::string("prefix"));
  simulation_.input.starting =
      simulation_.input.recipe.starting_configuration(simulation_.input.knobs);
  simulation_.advisors.plugins = {{"workers", once(kTwoWorkers.to_json(), 1.5)}};
  const SessionOutcome outcome = run(1);
  ASSERT_FALSE(outcome.trials.empty());
  EXPECT_EQ(outcome.trials[0].verdict, Verdict::accepted);
  EXPECT_EQ(outcome.trials[0].one_time_ns, 0);
}

TEST_F(Filling, OfARememberedBestIsChargedToo) {
  simulation_.advisors.plugins.clear();
  simulation_.input.known_best = simulation_.input.starting.with(kCache);
  SessionOutcome outcome = run(10);
  ASSERT_EQ(outcome.trials.size(), 1U);
  EXPECT_EQ(outcome.trials[0].kind, TrialKind::verification);
  EXPECT_EQ(outcome.trials[0].rejection, RejectionReason::not_repaid);
  EXPECT_EQ(outcome.best, simulation_.input.starting);
  outcome = run(100);
  EXPECT_TRUE(outcome.is_from_history);
  EXPECT_EQ(outcome.best.text("input.cache"), "prefix");
}

TEST_F(Filling, IsNoMatterOfAnAblation) {
  simulation_.input.is_ablated = true;
  const SessionOutcome outcome = run(100);
  const TrialRecord& last = outcome.trials.back();
  ASSERT_EQ(last.kind, TrialKind::ablation);
  EXPECT_EQ(last.verdict, Verdict::accepted);
  EXPECT_THAT(last.reason, Not(HasSubstr("takes")));
}

// Processes that are compared fill theirs each.
TEST_F(Filling, BehindARestartKnobIsThatOfItsProcesses) {
  simulation_.job.restart_knobs = {"memory.malloc"};
  const Configuration both = kCache.with(setting("memory.malloc", std::string("keep")));
  simulation_.advisors.plugins = {{"both", once(both.to_json(), 2.0)}};
  const SessionOutcome outcome = run(10);
  ASSERT_FALSE(outcome.trials.empty());
  EXPECT_EQ(outcome.trials[0].rejection, RejectionReason::not_repaid);
  EXPECT_GT(outcome.trials[0].process_pairs, 1);
}

}  // namespace
}  // namespace autotuned::tuner
