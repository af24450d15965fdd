// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_backend.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "tests/daemon/trainers/trainer_backend_scene.hpp"

namespace autotuned::daemon {
namespace {

// However many trainers meet it, before, in and after the training.
TEST_F(TrainerBackendTest, TellsOfADamagedFileOnce) {
  scene_.behave({{"damaged", 1}});
  ASSERT_TRUE(job().start(start_));
  EXPECT_EQ(damaged_, std::vector<Json>({{{"file", "0.jpg"}, {"what", "is odd"}, {"files", 1}}}));
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(damaged_.size(), 1U);
  scene_.behave({{"damaged", 2}});
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));  // another one
  ASSERT_EQ(damaged_.size(), 2U);
  EXPECT_EQ(damaged_[1], Json({{"file", "1.jpg"}, {"what", "is odd"}, {"files", 2}}));
  std::vector<Json> progress;
  ASSERT_TRUE(job().train(start_, scene_.folder() / "c",
                          [&](const Json& told) { progress.push_back(told); }));
  EXPECT_EQ(damaged_.size(), 2U);
  for (const Json& told : progress)
    EXPECT_FALSE(told.contains("damaged"));
}

TEST_F(TrainerBackendTest, TellsOfAWarningOnce) {
  scene_.behave({{"warns", 1}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));  // another trainer
  std::vector<Json> progress;
  ASSERT_TRUE(job().train(start_, scene_.folder() / "c",
                          [&](const Json& told) { progress.push_back(told); }));
  EXPECT_EQ(warnings_, std::vector<std::string>({"the cache is full"}));
  for (const Json& told : progress)
    EXPECT_FALSE(told.contains("warning"));
}

// A training may take days: it takes no turn, and keeps nobody from theirs.
TEST_F(TrainerBackendTest, TrainsWhoeverMeasures) {
  ASSERT_TRUE(job().start(start_));
  const auto other = lock_file(scene_.folder() / "measurement.lock", "process 7", /*wait=*/false);
  ASSERT_TRUE(other);
  EXPECT_TRUE(job().train(start_, scene_.folder() / "c", [](const Json&) {}));
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(TrainerBackendTest, SwitchesLiveWithWarmUp) {
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_TRUE(scene_.requests("prepare").empty());
  ASSERT_TRUE(job().run_block(with("loader.workers", std::int64_t{2}), {}));
  EXPECT_EQ(trainers(), 1);
  EXPECT_EQ(scene_.requests("prepare").size(), 1);
  // Steps that the switch makes cold are run before the block, and thrown away.
  EXPECT_EQ(blocks().size(), 2);
  const auto runs = scene_.requests("run");
  EXPECT_EQ(runs.at(runs.size() - 2).at("minimum_ns"), 0);
  EXPECT_GT(runs.at(runs.size() - 2).at("minimum_steps"), 0);
}

// From it the tuner knows what a trial in new processes takes, before there is one.
TEST_F(TrainerBackendTest, TellsHowLongATrainerTookToBecomeWarm) {
  scene_.behave({{"block_lasts_ms", 20}});
  ASSERT_TRUE(job().start(start_));
  EXPECT_EQ(job().warm_up_time().count(), 0);
  ASSERT_TRUE(job().run_block(start_, {}));
  const auto taken = job().warm_up_time();
  EXPECT_GE(taken, std::chrono::milliseconds(80)) << "four blocks at least";
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(job().warm_up_time(), taken) << "it is warm";
}

TEST_F(TrainerBackendTest, WarmsAFastJobUpWithAllSteps) {
  scene_.behave({{"rate", 1000}});  // 8 ms a step
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(with("layout.memory_format", std::string("channels_last")), {}));
  const auto runs = scene_.requests("run");
  EXPECT_EQ(runs.at(runs.size() - 2).at("minimum_steps"), 2);
}

// Whatever else is changed, and wherever the optimizer's state is put back: a recording is no part of a block.
TEST_F(TrainerBackendTest, RecordsAGraphAnewBeforeTheBlock) {
  ASSERT_TRUE(job().start(start_));
  Configuration graph = with("cuda.graph", true);
  ASSERT_TRUE(job().run_block(graph, {}));
  graph.set("loader.workers", std::int64_t{2});
  ASSERT_TRUE(job().run_block(graph, {}));
  auto runs = scene_.requests("run");
  EXPECT_EQ(runs.at(runs.size() - 2).at("minimum_steps"), 6);
  ASSERT_TRUE(job().make_ready(graph, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_EQ(scene_.requests("run").back().at("minimum_steps"), 6);
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_LT(scene_.requests("run").back().at("minimum_steps"), 6);
}

TEST_F(TrainerBackendTest, WarmsASlowJobUpWithOneStep) {
  scene_.behave({{"rate", 4}});  // 2 s a step
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(with("layout.memory_format", std::string("channels_last")), {}));
  const auto runs = scene_.requests("run");
  EXPECT_EQ(runs.at(runs.size() - 2).at("minimum_steps"), 1);
}

TEST_F(TrainerBackendTest, BlocksTellWhatTheirConfigurationCostsOnce) {
  scene_.behave({{"one_time", {{"input.cache=prefix", {2'000'000'000, 64}}}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration cached = with("input.cache", std::string("prefix"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(job().make_ready(cached, tuner::ProcessChoice::reuse, nullptr));
    const auto plain = job().run_block(start_, {});
    const auto filled = job().run_block(cached, {});
    ASSERT_TRUE(plain && filled);
    EXPECT_EQ(plain->one_time_ns, 0);
    EXPECT_EQ(plain->one_time_samples, 0);
    EXPECT_EQ(filled->one_time_ns, 2'000'000'000);
    EXPECT_EQ(filled->one_time_samples, 64);
  }
}

// It is in no block, and the trainer does not tell it: it is what our clock saw.
TEST_F(TrainerBackendTest, BlocksTellWhatAnExtensionDoesWhenItIsSwitchedOn) {
  scene_.behave({{"prepare_lasts_ms", {{"mine.skip=on", 1200}}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration skipping = with("mine.skip", true);
  ASSERT_TRUE(job().make_ready(skipping, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_EQ(job().run_block(start_, {})->one_time_ns, 0);
  EXPECT_GE(job().run_block(skipping, {})->one_time_ns, 1'000'000'000);
  EXPECT_EQ(job().run_block(start_, {})->one_time_ns, 0);
  EXPECT_GE(job().run_block(skipping, {})->one_time_ns, 1'000'000'000) << "each block tells it";
}

// What checkpoints cost shows only in a block that is as long as the time between two.
TEST_F(TrainerBackendTest, BlocksHaveTheirCheckpointWhereThatCosts) {
  const auto fields = [&](double share) {
    scene_.behave({{"metrics", {{"train.checkpoint_ratio", share}}}});
    scene_.forget_requests();
    job_.reset();
    EXPECT_TRUE(job().start(start_));
    EXPECT_TRUE(job().profile(start_));
    EXPECT_TRUE(job().run_block(start_, {}));
    return blocks().at(0);
  };
  checkpoint_every_ = std::chrono::seconds(2);
  const Json costly = fields(0.05);
  EXPECT_EQ(costly.at("minimum_ns"), 2'000'000'000);
  EXPECT_DOUBLE_EQ(job().checkpoint_share_ratio(), 0.05);
  EXPECT_EQ(costly.at("checkpoint_path"), (scene_.folder() / "timed.checkpoint").string());
  EXPECT_FALSE(fields(0.005).contains("checkpoint_path"));
  EXPECT_EQ(job().checkpoint_share_ratio(), 0.0);
  checkpoint_every_ = std::chrono::seconds(60);
  const Json rare = fields(0.05);
  EXPECT_FALSE(rare.contains("checkpoint_path"));
  EXPECT_LT(rare.at("minimum_ns"), 2'000'000'000);
}

const std::string kGpuTrace = tests::source_folder() / "tests/profiler/data/rank0.pt.trace.json.gz";

TEST_F(TrainerBackendTest, RecordsInATrainerOfItsOwnThatTimesNothing) {
  scene_.behave({{"trace", kGpuTrace}, {"notes", {"a kind of record is missing"}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  auto profile = job().profile(start_);
  ASSERT_TRUE(profile);
  const auto added = job().add_trace(start_, *profile, std::chrono::seconds(20));
  ASSERT_TRUE(added) << added.error().message();
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_GT(profile->metrics.at("copies.pageable_ratio"), 0.0);
  EXPECT_EQ(profile->metrics.at("step.data_wait_ratio"), 0.3);
  EXPECT_FALSE(profile->findings.empty());
  EXPECT_EQ(profile->notes, std::vector<std::string>({"a kind of record is missing"}));

  const auto traces = scene_.requests("trace");
  ASSERT_EQ(traces.size(), 1U);
  const Json& trace = traces[0];
  EXPECT_EQ(trace.at("path"), (scene_.folder() / "start.pt.trace.json.gz").string());
  EXPECT_TRUE(std::filesystem::exists(trace.at("path").get<std::string>()));
  EXPECT_GT(trace.at("maximum_ns"), 0);
  EXPECT_GT(trace.at("maximum_events"), 0);
  std::vector<std::string> asked;
  for (const Json& request : scene_.requests()) {
    if (request.at("trainer") == trace.at("trainer")) asked.push_back(request.at("request"));
  }
  EXPECT_EQ(asked, std::vector<std::string>({"hello", "load", "trace", "stop"}));
  EXPECT_EQ(trainers(), 2U) << "the other one waited";
  EXPECT_EQ(scene_.requests("run").back().at("trainer"), scene_.requests("run")[0].at("trainer"));
  EXPECT_GT(scene_.requests("run").back().at("line"), scene_.requests("stop")[0].at("line"));
}

TEST_F(TrainerBackendTest, FindingsThatCallForWhatIsDoneAreLeftOut) {
  scene_.behave({{"trace", kGpuTrace}});
  const auto knobs_found = [&](const Configuration& configuration) {
    auto profile = job().profile(configuration);
    EXPECT_TRUE(profile);
    EXPECT_TRUE(job().add_trace(configuration, *profile, std::chrono::seconds(20)));
    std::set<std::string> knobs;
    for (const FindingRecord& finding : profile->findings)
      knobs.insert(finding.knob);
    return knobs;
  };
  (void)job();  // makes the start
  start_.set("train.loss_reading", std::string("every_step"));
  EXPECT_THAT(knobs_found(start_), testing::IsSupersetOf({"optimizer.set_to_none", "loader.workers",
                                                          "train.loss_reading"}));
  Configuration changed = start_;
  changed.set("train.loss_reading", std::string("deferred"));
  changed.set("optimizer.set_to_none", true);
  changed.set("loader.workers", std::int64_t{1});
  const std::set<std::string> left = knobs_found(changed);
  EXPECT_FALSE(left.contains("optimizer.set_to_none"));
  EXPECT_FALSE(left.contains("train.loss_reading"));
  EXPECT_TRUE(left.contains("loader.workers")) << "one more may help";
}

TEST_F(TrainerBackendTest, FailedTraceLeavesProfileAndTrainerAlone) {
  for (const Json& fault : Json({{{"do", "abort"}},
                                 {{"do", "error"}, {"kind", "unsupported"}},
                                 {{"do", "garbage"}},
                                 {{"do", "empty_ok"}}})) {
    Json faulty = fault;
    faulty["request"] = "trace";
    job_.reset();
    scene_.behave({{"faults", {faulty}}});
    scene_.forget_requests();
    ASSERT_TRUE(job().start(start_));
    auto profile = job().profile(start_);
    ASSERT_TRUE(profile);
    const Json metrics = profile->metrics;
    EXPECT_FALSE(job().add_trace(start_, *profile, std::chrono::seconds(20))) << fault;
    EXPECT_EQ(profile->metrics, metrics);
    EXPECT_TRUE(profile->findings.empty());
    EXPECT_FALSE(std::filesystem::exists(scene_.folder() / "start.pt.trace.json.gz.part")) << fault;
    ASSERT_TRUE(job().run_block(start_, {}));
    EXPECT_EQ(trainers(), 2U);
  }
  EXPECT_TRUE(ends_.empty()) << "what is told of a trial is not of this";
}

TEST_F(TrainerBackendTest, NothingIsLeftOfATraceThatWasBegun) {
  const std::vector<std::filesystem::path> left = {
      scene_.folder().write("start.pt.trace.json.gz.part", "of a session that was killed"),
      scene_.folder().write("best.pt.trace.json.gz.part", "of another")};
  scene_.behave({{"faults", {{{"do", "abort"}, {"request", "trace"}}}}});
  ASSERT_TRUE(job().start(start_));
  for (const auto& file : left)
    EXPECT_FALSE(std::filesystem::exists(file)) << file;
  const std::filesystem::path mine = scene_.folder() / "mine.json.gz";
  EXPECT_FALSE(job().trace(start_, {{"path", mine.string()}}, std::chrono::seconds(20)));
  EXPECT_EQ(scene_.requests("trace").size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(mine.string() + ".part"));
}

// Those of other devices measure on the same CPUs.
TEST_F(TrainerBackendTest, MeasuresWhileNoOtherSessionDoes) {
  scene_.behave({{"lock", (scene_.folder() / "measurement.lock").string()}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  auto profile = job().profile(start_);
  ASSERT_TRUE(profile);
  ASSERT_TRUE(job().add_trace(start_, *profile, std::chrono::seconds(20)));
  // A check starts a trainer and makes whole steps.
  const Configuration candidate = with("mine.skip", true);
  ASSERT_TRUE(job().compare_updates(start_, candidate, 6, tuner::CheckedSteps::reached));
  ASSERT_TRUE(job().compare_rounded(start_));
  EXPECT_EQ(scene_.requests("check_steps").size(), 8U)
      << "with the reached moments and the initial ones";
  for (const Json& request : scene_.requests()) {
    const std::string name = request.at("request");
    // What goes before a measurement belongs to it; loading at the start is nobody's trial.
    const bool is_at_start = request.at("line").get<int>() <= 2;
    EXPECT_EQ(request.at("is_locked"), !is_at_start) << name;
  }
}

TEST_F(TrainerBackendTest, TraceDoesNotWaitForACache) {
  ASSERT_TRUE(job().start(start_));
  tuner::StepProfile profile;
  profile.metrics = {{"input.cache_fill_ns", 12e9}};
  const auto added = job().add_trace(start_, profile, std::chrono::seconds(20));
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().what, testing::HasSubstr("took 12"));
  EXPECT_TRUE(scene_.requests("trace").empty());
  profile.metrics = {{"input.cache_fill_ns", 5e8}};
  EXPECT_TRUE(job().add_trace(start_, profile, std::chrono::seconds(20)));
}

TEST_F(TrainerBackendTest, TraceThatHasNoRoomBesideOthersIsTakenAlone) {
  scene_.behave(
      {{"faults",
        {{{"do", "error"}, {"kind", "out_of_memory"}, {"request", "trace"}, {"once", true}}}}});
  ASSERT_TRUE(job().start(start_));
  tuner::StepProfile profile;
  const auto added = job().add_trace(start_, profile, std::chrono::seconds(20));
  EXPECT_TRUE(added) << added.error().message();
  EXPECT_EQ(scene_.requests("trace").size(), 2U);
  const int first = scene_.requests("hello")[0].at("trainer");
  EXPECT_EQ(scene_.requests("stop").at(1).at("trainer"), first);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(trainers(), 4U);
}

TEST_F(TrainerBackendTest, TraceOfAThirdConfigurationTakesThePlaceOfTheOldest) {
  ASSERT_TRUE(job().start(start_));
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().run_block(keep, {}));
  tuner::StepProfile profile;
  ASSERT_TRUE(job().add_trace(keep, profile, std::chrono::seconds(20)));
  EXPECT_EQ(scene_.requests("trace")[0].at("path"),
            (scene_.folder() / "best.pt.trace.json.gz").string());
  const int oldest = scene_.requests("hello")[0].at("trainer");
  EXPECT_EQ(scene_.requests("stop")[0].at("trainer"), oldest);
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_EQ(trainers(), 3U);
}

TEST_F(TrainerBackendTest, ARungThatANeighbourDisturbsIsMeasuredAloneTheNextTime) {
  scene_.behave({{"block_lasts_ms", 30},
                 {"reuse", {{"device_batch", 4.0}}},
                 {"faults",
                  {{{"do", "spin"},
                    {"leaves", true},
                    {"request", "load"},
                    {"when", {"memory.malloc=keep"}}}}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  const auto rung = job().run_block(start_, {.reuse = "device_batch"});
  ASSERT_FALSE(rung);
  EXPECT_TRUE(rung.error().is_disturbance);
  const auto alone = job().run_block(start_, {.reuse = "device_batch"});
  EXPECT_TRUE(alone) << alone.error().message();
}

TEST_F(TrainerBackendTest, RestartKnobGetsASecondTrainerThatStays) {
  ASSERT_TRUE(job().start(start_));
  const Configuration keep = with("memory.malloc", std::string("keep"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(job().run_block(start_, {}));
    ASSERT_TRUE(job().run_block(keep, {}));
  }
  EXPECT_EQ(trainers(), 2);
}

TEST_F(TrainerBackendTest, DeadTrainerIsReplaced) {
  scene_.behave({{"faults", {{{"do", "abort"}, {"request", "run"}, {"once", true}}}}});
  ASSERT_TRUE(job().start(start_));
  const auto failed = job().run_block(start_, {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::crashed);
  EXPECT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(trainers(), 2);
}

TEST_F(TrainerBackendTest, FailedSwitchIsToldEverythingAgain) {
  scene_.behave(
      {{"faults",
        {{{"do", "error"}, {"kind", "out_of_memory"}, {"request", "prepare"}, {"once", true}}}}});
  ASSERT_TRUE(job().start(start_));
  EXPECT_EQ(job().run_block(with("optimizer.set_to_none", true), {}).error().kind,
            ErrorKind::out_of_memory);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(scene_.requests("prepare").size(), 2);
  EXPECT_EQ(trainers(), 1);
}

// What an extension leaves behind when it is switched off must not be in the blocks of the reference.
TEST_F(TrainerBackendTest, MeasuresAnExtensionInAProcessOfItsOwn) {
  const Configuration skipping = with("mine.skip", true);
  ASSERT_TRUE(job().start(start_));
  EXPECT_FALSE(job().share_process(start_, skipping));
  EXPECT_TRUE(job().share_process(start_, with("mine.skip", false))) << "its default is no change";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(job().run_block(skipping, {}));
    ASSERT_TRUE(job().run_block(start_, {}));
  }
  EXPECT_EQ(trainers(), 2);
  const std::vector<Json> timed = blocks();
  ASSERT_EQ(timed.size(), 4U);
  EXPECT_EQ(timed.at(0).at("trainer"), timed.at(2).at("trainer"));
  EXPECT_EQ(timed.at(1).at("trainer"), timed.at(3).at("trainer"));
  EXPECT_NE(timed.at(0).at("trainer"), timed.at(1).at("trainer"));
  // It was switched on after the start, where its time is seen.
  for (const Json& load : scene_.requests("load")) {
    EXPECT_NE(load.at("configuration").value("mine.skip", false), true);
  }
}

// A single trainer may be stopped as long as its request may take: it may be let go on.
TEST_F(TrainerBackendTest, EndsTheFirstOfSeveralRanksWhenItStaysStopped) {
  for (const int ranks : {1, 2}) {
    TrainerBackendSpec spec = job_spec();
    spec.recipe.train.ranks = ranks;
    spec.stopped_limit = std::chrono::milliseconds(100);
    spec.block_limit = std::chrono::milliseconds(ranks == 1 ? 500 : 60'000);
    job_.emplace(std::move(spec), cancel_);
    scene_.forget_requests();
    ASSERT_TRUE(job().start(start_));
    ASSERT_EQ(kill(process(0), SIGSTOP), 0);
    wait_until_stopped(process(0), true);
    const auto block = job().run_block(start_, {});
    ASSERT_FALSE(block);
    EXPECT_EQ(block.error().kind, ranks == 1 ? ErrorKind::timeout : ErrorKind::crashed);
    EXPECT_EQ(block.error().what.starts_with("rank 0 of 2: the trainer was stopped (SIGSTOP) for"),
              ranks == 2)
        << block.error().message();
  }
}

TEST_F(TrainerBackendTest, TrainsInAFreshTrainer) {
  ASSERT_TRUE(job().start(start_));
  int progress = 0;
  const auto trained =
      job().train(start_, scene_.folder() / "checkpoint", [&](const Json&) { ++progress; });
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_EQ(trained->at("steps"), 10);
  EXPECT_EQ(progress, 11);
  EXPECT_EQ(trainers(), 2);
  EXPECT_TRUE(job().save(scene_.folder() / "model"));
  EXPECT_EQ(scene_.folder().read("model"), "trained for 10 steps\n");
}

}  // namespace
}  // namespace autotuned::daemon
