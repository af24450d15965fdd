// SPDX-License-Identifier: Apache-2.0
#include "tuner/ceiling.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "tests/tuner/simulation.hpp"
#include "tuner/proposals.hpp"

namespace autotuned::tuner {
namespace {

using testing::Contains;
using testing::HasSubstr;

Configuration change_of(const Json& json) {
  return Configuration::from_json(json).value();
}

// A job that waits for data half of the time, on a GPU: reading is cheap, transforms are not, the
// copy is.
Ceiling ladder() {
  return {
      .samples_per_second = 400.0,
      .bound_by = "compute",
      .rungs = {
          {"raw_bytes", 1.01}, {"made_samples", 1.5}, {"host_batch", 2.0}, {"device_batch", 2.02}}};
}

const Json kWaiting = {
    {"step.data_wait_ratio", 0.5}, {"input.read_ratio", 0.01}, {"step.transfer_ratio", 0.01}};

// Why a change is not tried with this ladder, on a machine that has everything; nothing else is asked of a near miss.
std::string skipped(const Json& change, const Ceiling& ceiling, const Json& metrics) {
  SessionInput input = simulated_input();
  for (recipes::Knob& knob : input.knobs) {
    knob.unavailable.clear();
    knob.unavailable_choices.clear();
  }
  const Proposal proposal{.plugin = "p",
                          .change = change_of(change),
                          .reason = "r",
                          .source = ProposalSource::near_miss};
  const auto refusal = screen(proposal, {input, input.starting, {}, {}, ceiling, metrics});
  if (!refusal) return "";
  EXPECT_FALSE(refusal->is_fault) << refusal->reason;
  return refusal->reason;
}

TEST(Ceiling, IsMeasuredRungByRung) {
  FakeClock clock;
  SimulatedBackend job(clock);
  job.noise = 0.0;
  job.ceiling_ratio = 2.0;
  job.rung_ratios = {{"raw_bytes", 1.25}, {"host_batch", 1.5}};
  const auto ceiling = measure_ceiling(job, {}, {.pairs = 5, .rung_pairs = 3});
  ASSERT_TRUE(ceiling);
  EXPECT_EQ(ceiling->bound_by, "compute");
  EXPECT_NEAR(ceiling->samples_per_second, 2e6, 1.0);
  ASSERT_EQ(ceiling->rungs.size(), 3U);
  EXPECT_NEAR(*ceiling->ratio_of("raw_bytes"), 1.25, 1e-6);
  EXPECT_NEAR(*ceiling->ratio_of("host_batch"), 1.5, 1e-6);
  EXPECT_NEAR(*ceiling->ratio_of("device_batch"), 2.0, 1e-6);
  EXPECT_FALSE(ceiling->ratio_of("made_samples")) << "the trainer cannot tell";
  EXPECT_EQ(job.blocks_of["device_batch"], 5);
  EXPECT_EQ(job.blocks_of["raw_bytes"], 3);
  EXPECT_EQ(job.blocks_of[""], 5 + 3);

  const Json rungs = ladder_json(*ceiling);
  ASSERT_EQ(rungs.size(), 3U);
  EXPECT_EQ(rungs[0].at("rung"), "raw_bytes");
  EXPECT_NEAR(rungs[0].at("samples_per_second").get<double>(), 1.25e6, 1.0);
  EXPECT_NEAR(rungs[0].at("reached_ratio").get<double>(), 0.8, 1e-6);
  Json metrics = Json::object();
  add_ceiling_metrics(*ceiling, metrics);
  EXPECT_EQ(metrics.size(), 3U);
  EXPECT_NEAR(metrics.at("ceiling.device_batch_ratio").get<double>(), 0.5, 1e-6);
}

// What another trainer was done, or did, is no fault of the job, which runs alone then.
TEST(Ceiling, ABlockOfTheJobThatFailsBesideAnotherTrainerIsMadeAgain) {
  FakeClock clock;
  SimulatedBackend job(clock);
  job.noise = 0.0;
  int blocks = 0;
  job.fault = [&blocks](const Configuration&) -> std::optional<Error> {
    if (++blocks != 4) return std::nullopt;  // the job's own of the second pair
    return Error{.kind = ErrorKind::unsupported, .what = "its neighbour was slowed"};
  };
  const auto ceiling = measure_ceiling(job, {}, {});
  ASSERT_TRUE(ceiling) << ceiling.error().message();
  EXPECT_NEAR(ceiling->ratio(), 2.0, 1e-6);

  for (const ErrorKind kind : {ErrorKind::unsupported, ErrorKind::cancelled}) {
    blocks = 0;
    job.fault = [&blocks, kind](const Configuration&) -> std::optional<Error> {
      ++blocks;
      return Error{.kind = kind, .what = "it does not run"};
    };
    const auto failed = measure_ceiling(job, {}, {});
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, kind);
    EXPECT_EQ(blocks, kind == ErrorKind::cancelled ? 1 : 2);
  }
}

// In the first pair, whose second block is that of the highest rung.
TEST(Ceiling, ARungThatWasDisturbedIsMeasuredOnceMore) {
  for (const bool repeats_disturbed : {true, false}) {
    for (const int disturbances : {1, 2}) {
      FakeClock clock;
      SimulatedBackend job(clock);
      job.noise = 0.0;
      job.fault = [&](const Configuration&) -> std::optional<Error> {
        if (job.blocks < 2 || job.blocks >= 2 + disturbances) return std::nullopt;
        return disturbance();
      };
      const auto ceiling =
          measure_ceiling(job, {}, {.rung_pairs = 0, .repeats_disturbed = repeats_disturbed});
      ASSERT_TRUE(ceiling) << ceiling.error().message();
      const bool is_measured = repeats_disturbed && disturbances == 1;
      EXPECT_EQ(ceiling->rungs.empty(), !is_measured);
      EXPECT_NEAR(ceiling->ratio(), is_measured ? 2.0 : 0.0, 1e-6);
      EXPECT_EQ(job.blocks_of["device_batch"], is_measured ? 5 : 0);
    }
  }
}

// The block after those of the baseline and the first one of the job; a new process for it would take a second.
TEST(CeilingOfASession, ADisturbedRungIsMeasuredAgainWhereTheBudgetBearsIt) {
  for (const int budget_s : {8, 300}) {
    Simulation simulation;
    simulation.input.recipe.tune.budget = std::chrono::seconds(budget_s);
    simulation.input.start_time = std::chrono::seconds(1);
    simulation.job.fault = [&](const Configuration&) -> std::optional<Error> {
      if (simulation.job.blocks != 8) return std::nullopt;
      return disturbance();
    };
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    ASSERT_FALSE(simulation.ledger.ceilings.empty());
    EXPECT_EQ(simulation.ledger.ceilings.front().rungs.empty(), budget_s == 8);
  }
}

double cost_of_loading(const Ceiling& ceiling) {
  Json metrics = {{"loader.cost_ratio", 0.0}};
  add_ceiling_metrics(ceiling, metrics);
  return metrics.at("loader.cost_ratio").get<double>();
}

TEST(CeilingGain, IsTheLeastThatAPairShows) {
  const RungGain gain = gain_of({1.4, 0.9, 1.2, 1.1, 1.3});
  EXPECT_EQ(gain.least_ratio, 0.9);
  EXPECT_EQ(gain.likely_ratio, 1.2);
  EXPECT_EQ(gain_of({3.0, 1.0}).likely_ratio, 2.0) << "no lean to the greater of two";
  EXPECT_EQ(gain_of({1.5}).least_ratio, 1.5);
}

// Both blocks of a pair err by a fifth, now and then by far more.
std::vector<double> noisy_pairs(double gain, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto error = [&] { return std::exp((uniform(engine) < 0.1 ? 0.8 : 0.2) * normal(engine)); };
  std::vector<double> ratios;
  for (int i = 0; i < 5; ++i)
    ratios.push_back(gain * error() / error());
  return ratios;
}

TEST(CeilingGain, NoiseDoesNotPassForOneAndAGainDoes) {
  constexpr int kLadders = 4000;
  std::mt19937_64 engine{5};
  int noise_claimed = 0;
  int noise_likely = 0;
  int gains_found = 0;
  for (int i = 0; i < kLadders; ++i) {
    const RungGain nothing = gain_of(noisy_pairs(1.0, engine));
    noise_claimed += static_cast<int>(nothing.least_ratio > 1.0);
    noise_likely += static_cast<int>(nothing.likely_ratio > 1.0);
    gains_found += static_cast<int>(gain_of(noisy_pairs(2.5, engine)).least_ratio > 1.1);
  }
  EXPECT_LT(noise_claimed, kLadders / 25) << "1 in 32 is due";
  EXPECT_GT(noise_likely, kLadders * 2 / 5) << "what a median would claim";
  EXPECT_GT(gains_found, kLadders * 3 / 4) << "one wild pair hides it, and the wait remains";
}

TEST(Ceiling, CostOfLoadingIsNoNoise) {
  FakeClock clock;
  SimulatedBackend job(clock);
  job.noise = 0.2;
  job.ceiling_ratio = 1.0;
  job.rung_ratios = {{"host_batch", 1.0}};
  constexpr int kLadders = 500;
  int costly = 0;
  for (int i = 0; i < kLadders; ++i) {
    const auto ceiling = measure_ceiling(job, {}, {});
    ASSERT_TRUE(ceiling);
    costly += static_cast<int>(cost_of_loading(*ceiling) > 0.02);
  }
  EXPECT_LT(costly, kLadders / 50) << "five pairs of one rung and three of the other must agree";
  job.ceiling_ratio = 2.5;
  job.rung_ratios = {{"host_batch", 2.5}};
  int seen = 0;
  for (int i = 0; i < kLadders; ++i)
    seen += static_cast<int>(cost_of_loading(measure_ceiling(job, {}, {}).value()) > 0.2);
  EXPECT_GT(seen, kLadders * 9 / 10);
}

// Its rate is the same with and without loading, and grows all the time.
TEST(Ceiling, AMachineThatGetsFasterIsNoGain) {
  FakeClock clock;
  SimulatedBackend job(clock);
  job.noise = 0.0;
  job.ceiling_ratio = 1.0;
  job.rate = [&job](const Configuration&) { return 1000.0 * std::pow(1.05, job.blocks); };
  const auto ceiling = measure_ceiling(job, {}, {});
  ASSERT_TRUE(ceiling);
  EXPECT_EQ(ceiling->ratio(), 1.0);
}

// A paced model: with ready batches it makes 2500 samples per second, however slow its loader is at the moment.
TEST(Ceiling, ClaimsNoMoreThanBlocksDid) {
  const Ceiling measured{.samples_per_second = 2500.0,
                         .bound_by = "compute",
                         .rungs = {{"raw_bytes", 1.1}, {"device_batch", 2.5}}};
  // Accepted since, without a ladder of its own.
  const Ceiling faster = ceiling_above(measured, 2000.0);
  EXPECT_NEAR(faster.samples_per_second, 2500.0, 1e-6);
  EXPECT_NEAR(faster.ratio(), 1.25, 1e-9);
  EXPECT_EQ(*faster.ratio_of("raw_bytes"), 1.0) << "1100 samples per second are fewer";
  // The job beats what it did with ready batches, and the ladder has nothing above that.
  EXPECT_NEAR(ceiling_above(measured, 3000.0).samples_per_second, 3000.0, 1e-6);
  // On a machine that is slower by now the ratios hold, and nothing above them was seen.
  EXPECT_NEAR(ceiling_above(measured, 800.0).samples_per_second, 2000.0, 1e-6);
  EXPECT_NEAR(*ceiling_above(measured, 800.0).ratio_of("raw_bytes"), 1.1, 1e-9);
  EXPECT_EQ(ceiling_above({}, 800.0).samples_per_second, 0.0) << "not measured";
}

// Loader threads that need the CPUs of the step cost more than what it waits for them.
TEST(Ceiling, LoadingCostsAtLeastWhatReadyBatchesSave) {
  const auto loading = [](std::vector<Rung> rungs, double waiting) {
    Json metrics = {{"loader.cost_ratio", waiting}, {"step.transfer_ratio", 0.05}};
    add_ceiling_metrics({.rungs = std::move(rungs)}, metrics);
    return metrics.at("loader.cost_ratio").get<double>();
  };
  EXPECT_NEAR(loading({{"host_batch", 1.25}, {"device_batch", 2.0}}, 0.01), 0.2, 1e-9);
  EXPECT_NEAR(loading({{"host_batch", 1.25}, {"device_batch", 2.0}}, 0.3), 0.3, 1e-9);
  EXPECT_NEAR(loading({{"device_batch", 2.0}}, 0.01), 0.45, 1e-9) << "of which 5 % is handing over";
  EXPECT_NEAR(loading({{"device_batch", 1.0}}, 0.01), 0.01, 1e-9);
  EXPECT_NEAR(loading({}, 0.01), 0.01, 1e-9) << "not measured";
  Json hidden = {{"loader.cost_ratio", 0.9}, {"parts.data_loading_ratio", 0.01}};
  add_ceiling_metrics({}, hidden);
  EXPECT_EQ(hidden.at("loader.cost_ratio"), 0.01) << "kernels ran meanwhile";
}

TEST(Ceiling, LowerRungsAreLeftOutWhereThereIsNothingToGain) {
  FakeClock clock;
  SimulatedBackend job(clock);
  job.noise = 0.0;
  job.ceiling_ratio = 1.01;
  job.rung_ratios = {{"raw_bytes", 1.0}};
  const auto ceiling = measure_ceiling(job, {}, {});
  ASSERT_TRUE(ceiling);
  EXPECT_EQ(ceiling->rungs.size(), 1U);
  EXPECT_EQ(job.blocks_of["raw_bytes"], 0);
  job.ceiling_ratio = 2.0;
  ASSERT_TRUE(measure_ceiling(job, {}, {.pairs = 2, .rung_pairs = 0}));
  EXPECT_EQ(job.blocks_of["raw_bytes"], 0);
}

// Noise must not make a rung that frees more slower than one that frees less, or the job itself.
TEST(Ceiling, RungsOnlyRise) {
  FakeClock clock;
  SimulatedBackend job(clock);
  job.noise = 0.0;
  job.ceiling_ratio = 1.5;
  job.rung_ratios = {{"raw_bytes", 0.9}, {"made_samples", 1.4}, {"host_batch", 1.3}};
  auto ceiling = measure_ceiling(job, {}, {});
  ASSERT_TRUE(ceiling);
  EXPECT_EQ(*ceiling->ratio_of("raw_bytes"), 1.0);
  EXPECT_EQ(*ceiling->ratio_of("host_batch"), *ceiling->ratio_of("made_samples"));
  job.rung_ratios = {{"host_batch", 1.7}};
  ceiling = measure_ceiling(job, {}, {});
  EXPECT_EQ(*ceiling->ratio_of("host_batch"), ceiling->ratio());
}

TEST(Ceiling, SkipsWhatIsAboutAPartThatCostsNothing) {
  const Ceiling rungs = ladder();
  EXPECT_THAT(skipped({{"input.cache", "raw"}}, rungs, kWaiting),
              HasSubstr("input.cache=raw speeds up reading: with its files in memory the job "
                        "would be only 1.0 % faster"));
  EXPECT_THAT(skipped({{"input.read_ahead", 4}}, rungs, kWaiting), HasSubstr("speeds up reading"));
  EXPECT_THAT(
      skipped({{"transfer.non_blocking", true}, {"loader.pin_memory", true}}, rungs, kWaiting),
      HasSubstr("speeds up transfer: with its batches on the device instead of on the host "
                "the job would be only 1.0 % faster"));
  for (const Json& change : std::initializer_list<Json>{{{"input.cache", "decoded"}},
                                                        {{"input.order", "crop_first"}},
                                                        {{"loader.workers", 2}},
                                                        {{"transfer.dtype", "uint8"}},
                                                        {{"optimizer.fused", true}},
                                                        Json::object()}) {
    EXPECT_EQ(skipped(change, rungs, kWaiting), "") << change;
  }
  // The costliest part decides, and what is not about the input is never at a ceiling of it.
  EXPECT_EQ(skipped({{"input.read_ahead", 4}, {"loader.workers", 2}}, rungs, kWaiting), "");
  EXPECT_EQ(skipped({{"input.read_ahead", 4}, {"optimizer.fused", true}}, rungs, kWaiting), "");
}

TEST(Ceiling, WaitsThatKernelsHideAreNone) {
  const Ceiling only_device{
      .samples_per_second = 1.0, .bound_by = "compute", .rungs = {{"device_batch", 1.01}}};
  const Json workers = {{"loader.workers", 2}};
  EXPECT_EQ(skipped(workers, only_device, kWaiting), "");
  Json hidden = kWaiting;
  hidden["parts.data_loading_ratio"] = 0.01;
  EXPECT_THAT(skipped(workers, only_device, hidden), HasSubstr("with its batches on the device"));
}

TEST(Ceiling, ARungThatWasNotMeasuredIsThatAboveIt) {
  const Ceiling only_device{
      .samples_per_second = 1.0, .bound_by = "compute", .rungs = {{"device_batch", 1.01}}};
  const Json idle = {{"step.data_wait_ratio", 0.01}};
  for (const Json& change : std::initializer_list<Json>{
           {{"loader.workers", 2}}, {{"input.cache", "raw"}}, {{"loader.pin_memory", true}}}) {
    EXPECT_THAT(skipped(change, only_device, idle), HasSubstr("with its batches on the device"))
        << change;
  }
  Ceiling without_reading = ladder();
  without_reading.rungs.erase(without_reading.rungs.begin());
  EXPECT_EQ(skipped({{"input.cache", "raw"}}, without_reading, kWaiting), "");
  EXPECT_EQ(skipped({{"loader.workers", 2}}, {}, idle), "") << "nothing is known";
}

TEST(Ceiling, WhatTheProfileSawSpeaksAgainstIt) {
  Json metrics = kWaiting;
  metrics["input.read_ratio"] = 0.5;  // a quarter of the step waits for reading
  EXPECT_EQ(skipped({{"input.cache", "raw"}}, ladder(), metrics), "");
  metrics["step.transfer_ratio"] = 0.1;
  EXPECT_EQ(skipped({{"loader.pin_memory", true}}, ladder(), metrics), "");
  EXPECT_NE(skipped({{"loader.pin_memory", true}}, ladder(), Json::object()), "");
}

TEST(CeilingOfASession, SkipsReadingAndKeepsTransforms) {
  Simulation simulation;
  simulation.advisors.plugins["cache_raw"] = once({{"input.cache", "raw"}}, 1.5);
  simulation.advisors.plugins["workers"] = once({{"loader.workers", 2}}, 1.4);
  simulation.job.rung_ratios = {{"raw_bytes", 1.0}, {"made_samples", 1.8}};
  simulation.job.metrics = [](const Configuration&) {
    return Json{{"step.data_wait_ratio", 0.5}, {"input.read_ratio", 0.01}};
  };
  simulation.job.noise = 0.001;
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_THAT(
      simulation.ledger.events,
      Contains(HasSubstr("answered cache_raw: skipped: input.cache=raw speeds up reading")));
  for (const TrialRecord& trial : outcome->trials)
    EXPECT_NE(trial.plugin, "cache_raw");
  // Plugins see the same figures.
  EXPECT_NEAR(simulation.advisors.situations.front()
                  .at("metrics")
                  .at("ceiling.made_samples_ratio")
                  .get<double>(),
              1 / 1.8, 0.01);
  ASSERT_EQ(outcome->ceiling.rungs.size(), 3U);
  EXPECT_NEAR(ladder_json(outcome->ceiling)[0].at("samples_per_second").get<double>(),
              outcome->best_samples_per_second, 0.02 * outcome->best_samples_per_second);
}

TEST(CeilingOfASession, LowerRungsWaitForABudgetThatBearsThem) {
  Simulation simulation;
  simulation.job.rung_ratios = {{"raw_bytes", 1.5}};
  simulation.input.recipe.tune.budget = std::chrono::seconds(6);
  ASSERT_TRUE(simulation.run());
  EXPECT_EQ(simulation.job.blocks_of["raw_bytes"], 0);
  Simulation patient;
  patient.job.rung_ratios = {{"raw_bytes", 1.5}};
  ASSERT_TRUE(patient.run());
  EXPECT_EQ(patient.job.blocks_of["raw_bytes"], 3);
}

}  // namespace
}  // namespace autotuned::tuner
