// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;

constexpr const char* kWorkers = "loader.workers";

// A step of `step_ms` of which `wait` is waiting, with batches that take a worker `batch_ms`.
Json starving(double step_ms, double wait, double batch_ms, int workers, double utilization) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["step.duration_ns"] = step_ms * 1e6;
  json["metrics"]["step.data_wait_ratio"] = wait;
  json["metrics"]["loader.cost_ratio"] = wait;
  json["metrics"]["loader.sample_ns"] = batch_ms * 1e6 / 32;
  json["metrics"]["cpu.utilization_ratio"] = utilization;
  json["environment"]["cpus_allowed"] = 16;
  json["knobs"][kWorkers]["maximum"] = 16;
  json["incumbent"][kWorkers] = workers;
  return json;
}

Json workers(int count) {
  return {{kWorkers, count}};
}

std::vector<int> counts(const Json& answer) {
  std::vector<int> all;
  for (const Json& candidate : answer.at("candidates")) {
    all.push_back(candidate.at("change").at(kWorkers).get<int>());
  }
  return all;
}

TEST(NumWorkers, OneIsEnoughWhereLoadingIsQuick) {
  // W6: 6 % of a step in the training thread.
  Answers answers("num_workers");
  const Json answer = answers.proposes("6 % of the step", situation("fashion_cnn_cpu"), workers(1));
  EXPECT_THAT(counts(answer), ElementsAre(1, 2));
  EXPECT_NEAR(first_gain(answer), 1.064, 0.001);
}

TEST(NumWorkers, PredictsTheCountFromWhatOneWorkerCanDo) {
  // Computing takes 20 ms of a step, a batch 110 ms of one worker: 5.5 of them.
  const Json answer = ask("num_workers", starving(130, 110.0 / 130, 110, 0, 0.1));
  EXPECT_THAT(counts(answer), ElementsAre(6, 5, 7));
  EXPECT_NEAR(first_gain(answer), 6.5, 0.01);
}

TEST(NumWorkers, ExpectsNoMoreThanTheWorkersCanProduce) {
  Json json = starving(130, 110.0 / 130, 110, 0, 0.1);
  json["environment"]["cpus_allowed"] = 2;
  const Json answer = ask("num_workers", json);
  EXPECT_THAT(counts(answer), ElementsAre(2, 1));
  EXPECT_NEAR(first_gain(answer), 130.0 / 55, 0.01);
}

TEST(NumWorkers, ExpectsNoMoreThanTheCpusHaveLeft) {
  const Json answer = ask("num_workers", starving(100, 0.5, 50, 0, 0.95));
  EXPECT_NEAR(first_gain(answer), 1 / 0.95, 0.001);
  // Nothing idle, so not one more than needed either.
  EXPECT_THAT(counts(answer), ElementsAre(1));
}

// 15 workers keep up, so the step never waits and its thread needs the sixteenth CPU.
TEST(NumWorkers, LeavesABusyLaunchingThreadItsCpu) {
  // 20 ms of computing with a few CPUs, 275 ms of one worker: 14 of them, and not more than 15.
  EXPECT_THAT(counts(ask("num_workers", starving(295, 275.0 / 295, 275, 0, 0.07))),
              ElementsAre(14, 13, 15));
  EXPECT_THAT(counts(ask("num_workers", starving(315, 295.0 / 315, 295, 0, 0.07))),
              ElementsAre(15, 14));
  // A thread that sleeps while a device computes, as in a paced model, needs none.
  EXPECT_THAT(counts(ask("num_workers", starving(315, 295.0 / 315, 295, 0, 295.0 / 315 / 16))),
              ElementsAre(15, 14, 16));
  // On a CPU, where all together cannot keep up, it waits for them.
  EXPECT_THAT(counts(ask("num_workers", starving(515, 495.0 / 515, 495, 0, 0.07))),
              ElementsAre(16, 15));
}

TEST(NumWorkers, AlwaysLeavesTheThreadThatLaunchesForAGpuItsCpu) {
  Json json = starving(515, 495.0 / 515, 495, 0, 0.07);
  json["job"]["device"] = "cuda:0";
  Answers answers("num_workers");
  EXPECT_THAT(counts(answers.proposes("a GPU", json, workers(15))), ElementsAre(15, 14));
  json["incumbent"][kWorkers] = 15;
  json["metrics"]["step.data_wait_ratio"] = 0.4;
  json["metrics"]["step.duration_ns"] = 33.3e6;
  answers.declines("15 workers", json);
  json["environment"]["cpus_allowed"] = 1;
  json["incumbent"][kWorkers] = 0;
  EXPECT_THAT(counts(ask("num_workers", json)), ElementsAre(1));
}

// One worker takes as long as the step of now, and half of that in 16 bits: then two would be too few, and a trial of
// 16 bits beside one worker shows no gain.
TEST(NumWorkers, LeavesRoomForAFasterStepOnAGpu) {
  Json json = starving(57, 0.3, 29, 0, 0.06);
  EXPECT_THAT(counts(ask("num_workers", json)), ElementsAre(1, 2));
  json["job"]["device"] = "cuda:0";
  Answers answers("num_workers");
  EXPECT_THAT(counts(answers.proposes("a GPU and idle CPUs", json, workers(3))), ElementsAre(3, 1));
  tell(json, workers(3), "rejected", 0.9);
  EXPECT_THAT(counts(answers.proposes("3 were not faster", json, workers(1))), ElementsAre(1));
  // Half of the idle CPUs at most.
  EXPECT_THAT(counts(ask("num_workers",
                         [] {
                           Json busy = starving(57, 0.3, 29, 0, 0.74);
                           busy["job"]["device"] = "cuda:0";
                           return busy;
                         }())),
              ElementsAre(2, 1));
}

TEST(NumWorkers, LeavesAloneWaitsThatKernelsHide) {
  Json json = starving(515, 495.0 / 515, 495, 0, 0.07);
  json["job"]["device"] = "cuda:0";
  json["metrics"]["parts.data_loading_ratio"] = 0.01;
  Answers("num_workers").declines("1 % in loading", json);
}

TEST(NumWorkers, AddsNoneWhereTheCpusAreBusyAndTheCountShouldDo) {
  Answers answers("num_workers");
  answers.proposes("idle CPUs", starving(21, 0.05, 110, 6, 0.5), workers(7));
  answers.declines("busy CPUs", starving(21, 0.05, 110, 6, 0.95));
}

TEST(NumWorkers, GoesUphillAfterAnAcceptance) {
  Json json = starving(130, 110.0 / 130, 110, 0, 0.1);
  tell(json, workers(6), "accepted", 5.5);
  // Now it still waits a little, though six should do.
  json["metrics"]["step.duration_ns"] = 21e6;
  json["metrics"]["step.data_wait_ratio"] = 0.05;
  Answers answers("num_workers");
  answers.proposes("6 were faster", json, workers(7));
  tell(json, workers(7), "rejected", 1.0);
  answers.declines("7 were not", json);
}

TEST(NumWorkers, TriesTheNeighboursAfterALoss) {
  Json json = starving(130, 110.0 / 130, 110, 0, 0.1);
  tell(json, workers(6), "rejected", 0.9);
  EXPECT_THAT(counts(ask("num_workers", json)), ElementsAre(5, 7));
  // Against another incumbent everything is open again.
  json["incumbent"]["batch_size"] = 64;
  EXPECT_THAT(counts(ask("num_workers", json)), ElementsAre(6, 5, 7));
}

TEST(NumWorkers, TakesThemAwayWhereTheyCompeteForTheCpus) {
  Answers answers("num_workers");
  answers.proposes("busy CPUs", starving(100, 0.001, 60, 8, 0.99), workers(1));
  const Json json = starving(100, 0.001, 60, 8, 0.5);
  answers.declines("idle CPUs", json);
  // Nobody waits, and yet steps with ready batches are shorter.
  answers.proposes("loading that costs", json, workers(1),
                   {{"metrics", {{"loader.cost_ratio", 0.05}}}});
}

TEST(NumWorkers, SaysWhyThereIsNothingToDo) {
  Answers answers("num_workers");
  answers.declines("0.4 % of waiting", starving(100, 0.004, 60, 1, 0.5));
  const Json json = starving(100, 0.5, 5000, 16, 0.5);
  answers.declines("a worker on each CPU", json);
  answers.declines("no measurement", json, {{"metrics", {{"step.data_wait_ratio", nullptr}}}});
  answers.declines("no knob", json, {{"knobs", {{kWorkers, nullptr}}}});
}

TEST(NumWorkers, ManagesWithoutTheTimeOfASample) {
  // In the training thread the wait is the production.
  Json json = starving(100, 0.75, 0, 0, 0.1);
  json["metrics"].erase("loader.sample_ns");
  EXPECT_THAT(counts(ask("num_workers", json)), ElementsAre(3, 2, 4));
  // Two busy workers that are waited for three quarters of the time: eight.
  json["incumbent"][kWorkers] = 2;
  EXPECT_THAT(counts(ask("num_workers", json)), ElementsAre(8, 7, 9));
}

// `paced` models with no compute at all: every count that the machine has is still finite.
TEST(NumWorkers, SurvivesAStepThatOnlyWaits) {
  EXPECT_THAT(counts(ask("num_workers", starving(100, 1.0, 100, 0, 0.1))), ElementsAre(16, 15));
  EXPECT_THAT(counts(ask("num_workers", starving(100, 1.5, 100, 0, 0.1))), ElementsAre(16, 15));
}

}  // namespace
}  // namespace autotuned::plugins
