// SPDX-License-Identifier: Apache-2.0
// Two trainers at once: who runs, who waits, and who has no room.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/trainers/trainer_backend_scene.hpp"

namespace autotuned::daemon {
namespace {

// The first `request` of a trainer that keeps memory finds none.
Json no_room_once(const std::string& request) {
  return {{"faults",
           {{{"do", "error"},
             {"kind", "out_of_memory"},
             {"request", request},
             {"when", {"memory.malloc=keep"}},
             {"once", true}}}}};
}

TEST_F(TrainerBackendTest, TwoThatDoNotFitAlternate) {
  scene_.behave(no_room_once("load"));
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_EQ(trainers(), 3);
  EXPECT_EQ(scene_.requests("stop").size(), 1);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(scene_.requests("stop").size(), 2) << "they are known not to fit";
}

// They fit when they load, and not when one of them works.
TEST_F(TrainerBackendTest, TwoThatDoNotFitInABlockAlternate) {
  scene_.behave(no_room_once("run"));
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_EQ(trainers(), 3) << "the second one got a process to itself";
  EXPECT_EQ(scene_.requests("stop").size(), 2);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(trainers(), 4);
  EXPECT_EQ(scene_.requests("stop").size(), 3);
  // Others are not concerned.
  ASSERT_TRUE(job().run_block(with("env.PLACEBO_A", std::string("1")), {}));
  EXPECT_EQ(scene_.requests("stop").size(), 3);
}

// A configuration that has too little memory even alone is nobody's neighbour's fault.
TEST_F(TrainerBackendTest, OneThatDoesNotFitAloneSaysSo) {
  scene_.behave({{"faults",
                  {{{"do", "error"},
                    {"kind", "out_of_memory"},
                    {"request", "run"},
                    {"when", {"memory.malloc=keep"}}}}}});
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  const auto block = job().run_block(keep, {});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::out_of_memory);
  EXPECT_TRUE(job().run_block(start_, {}));
}

// The candidate may have taken its neighbour down: the next try must be alone.
TEST_F(TrainerBackendTest, ABlockThatFailedBesideAnotherTrainerIsMeasuredAlone) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_EQ(trainers(), 2);
  scene_.behave(Json::object());
  ASSERT_EQ(kill(process(0), SIGKILL), 0);
  ASSERT_FALSE(job().run_block(start_, {}));
  EXPECT_TRUE(scene_.requests("stop").empty());
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(scene_.requests("stop").at(0).at("trainer"), process(1));
}

// Only one process at a time may use this GPU.
TEST_F(TrainerBackendTest, TwoThatMayNotShareTheGpuAlternate) {
  scene_.behave({{"device", "cuda:0"},
                 {"faults",
                  {{{"do", "error"},
                    {"kind", "busy"},
                    {"request", "load"},
                    {"when", {"memory.malloc=keep"}},
                    {"once", true}}}}});
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_EQ(scene_.requests("stop").size(), 1U);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(scene_.requests("stop").size(), 2U) << "they are known not to share it";
}

// Else what the host takes to get ahead of the GPU would be a large part of each block.
TEST_F(TrainerBackendTest, ABlockOnAGpuHasEnoughStepsToKeepItBusy) {
  scene_.behave({{"device", "cuda:0"}, {"rate", 200}});  // 40 ms a step
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(blocks().back().at("minimum_steps"), 8);
  EXPECT_GT(blocks().back().at("minimum_ns"), 300'000'000);
}

TEST_F(TrainerBackendTest, ABlockOnAGpuWithSlowStepsEndsEarlier) {
  scene_.behave({{"device", "cuda:0"}, {"rate", 40}});  // 0.2 s a step
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(blocks().back().at("minimum_steps"), 2);
}

// What LibTorch keeps for later is what the other one lacks.
TEST_F(TrainerBackendTest, TheWaitingTrainerOfAGpuGivesItsMemoryBack) {
  scene_.behave({{"device", "cuda:0"}});
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_TRUE(scene_.requests("release").empty()) << "nobody waits";
  ASSERT_TRUE(job().run_block(keep, {}));
  ASSERT_EQ(scene_.requests("release").size(), 1U);
  EXPECT_EQ(scene_.requests("release")[0].at("trainer"), process(0));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_EQ(scene_.requests("release").size(), 2U);
  EXPECT_EQ(scene_.requests("release")[1].at("trainer"), process(1));
  // It takes memory anew in a step that is not timed; then it has it.
  EXPECT_EQ(blocks().back().value("warmup_steps", 0), 1);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(blocks().back().value("warmup_steps", 0), 0);
  EXPECT_EQ(scene_.requests("release").size(), 2U) << "the other one waits as before";
}

TEST_F(TrainerBackendTest, ATrainerThatCannotGiveMemoryBackWaitsAllTheSame) {
  scene_.behave({{"device", "cuda:0"},
                 {"faults", {{{"do", "error"}, {"kind", "invalid"}, {"request", "release"}}}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  wait_until_stopped(process(0), true);
  ASSERT_TRUE(job().run_block(start_, {}));
  EXPECT_EQ(blocks().back().value("warmup_steps", 0), 0);
}

TEST_F(TrainerBackendTest, OnTheCpuNothingIsGivenBack) {
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  EXPECT_TRUE(scene_.requests("release").empty());
}

TEST_F(TrainerBackendTest, WaitingTrainerIsStopped) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(keep, {}));
  wait_until_stopped(process(0), true);
  wait_until_stopped(process(1), false);
  ASSERT_TRUE(job().run_block(start_, {}));
  wait_until_stopped(process(1), true);
  wait_until_stopped(process(0), false);
  job().stop();
  EXPECT_EQ(scene_.requests("stop").size(), 2U) << "the stopped one was made to go on";
}

TEST_F(TrainerBackendTest, ACancelReachesTheWorkingTrainerBesideAStoppedOne) {
  scene_.behave({{"faults", {{{"do", "await_cancel"}, {"request", "profile"}}}}});
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(keep, {}));
  cancel_.request();
  EXPECT_EQ(job().profile(start_).error().kind, ErrorKind::cancelled);
  job().stop();
  EXPECT_EQ(scene_.requests("stop").size(), 2U);
}

// What the waiting trainer has started stands still as long as it is in its group.
TEST_F(TrainerBackendTest, ChildrenOfTheWaitingTrainerAreStopped) {
  scene_.behave(
      {{"block_lasts_ms", 30},
       {"faults", {{{"do", "spin"}, {"request", "load"}, {"when", {"memory.malloc=keep"}}}}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  const auto block = job().run_block(start_, {});
  EXPECT_TRUE(block) << block.error().message();
}

// It has left the group, lost its parent and cleared its environment: that the trainer adopts it tells whose it is.
TEST_F(TrainerBackendTest, ANeighbourThatHidesFailsTheBlock) {
  scene_.behave({{"block_lasts_ms", 30},
                 {"faults",
                  {{{"do", "spin"},
                    {"leaves", true},
                    {"hides", true},
                    {"request", "load"},
                    {"when", {"memory.malloc=keep"}}}}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  const auto block = job().run_block(start_, {});
  ASSERT_FALSE(block);
  EXPECT_TRUE(block.error().is_disturbance);
  EXPECT_THAT(block.error().what, testing::HasSubstr("slows its neighbour"));
}

TEST_F(TrainerBackendTest, ANeighbourThatUsesTheCpuFailsTheBlock) {
  scene_.behave({{"block_lasts_ms", 30},
                 {"faults",
                  {{{"do", "spin"},
                    {"leaves", true},
                    {"request", "load"},
                    {"when", {"memory.malloc=keep"}}}}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  const auto block = job().run_block(start_, {});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  EXPECT_TRUE(block.error().is_disturbance);
  EXPECT_THAT(block.error().what, testing::HasSubstr(std::to_string(process(1))));
  EXPECT_THAT(block.error().what, testing::HasSubstr("slows its neighbour"));
  const auto alone = job().run_block(start_, {});
  EXPECT_TRUE(alone) << alone.error().message();
}

// The extension starts something once.
Json leaves_orphan() {
  return {
      {"faults",
       {{{"do", "leave_orphan"}, {"request", "run"}, {"when", {"mine.skip=on"}}, {"once", true}}}}};
}

TEST_F(TrainerBackendTest, WhatAnExtensionLeavesBehindIsEndedAndFailsItsTrial) {
  scene_.behave(leaves_orphan());
  ASSERT_TRUE(job().start(start_));
  const Configuration skip = with("mine.skip", true);
  ASSERT_TRUE(job().make_ready(skip, tuner::ProcessChoice::reuse, &start_));
  const auto fresh = job().make_ready(skip, tuner::ProcessChoice::fresh, &start_);
  ASSERT_FALSE(fresh);
  EXPECT_EQ(fresh.error().kind, ErrorKind::unsupported);
  EXPECT_FALSE(fresh.error().is_disturbance);
  EXPECT_THAT(fresh.error().what,
              testing::HasSubstr("was still running after its trainer had ended (process "));
  const auto next = job().make_ready(skip, tuner::ProcessChoice::fresh, &start_);
  EXPECT_TRUE(next) << next.error().message();
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

// Else no restart knob could be tried beside an extension that the recipe starts with.
TEST_F(TrainerBackendTest, WhatAnExtensionOfBothLeavesBehindFailsNoTrial) {
  scene_.behave(leaves_orphan());
  ASSERT_TRUE(job().start(start_));
  const Configuration skip = with("mine.skip", true);
  Configuration keep = skip;
  keep.set("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::reuse, &skip));
  const auto candidate = job().make_ready(keep, tuner::ProcessChoice::fresh, &skip);
  EXPECT_TRUE(candidate) << candidate.error().message();
  EXPECT_THAT(warnings_, testing::ElementsAre(testing::HasSubstr("what an extension had started")));
}

TEST_F(TrainerBackendTest, WhatAnExtensionOfTheReferenceLeavesBehindFailsNoTrial) {
  scene_.behave(leaves_orphan());
  ASSERT_TRUE(job().start(start_));
  const Configuration skip = with("mine.skip", true);
  ASSERT_TRUE(job().make_ready(skip, tuner::ProcessChoice::reuse, nullptr));
  const auto reference = job().make_ready(skip, tuner::ProcessChoice::fresh, nullptr);
  EXPECT_TRUE(reference) << reference.error().message();
  EXPECT_THAT(warnings_, testing::ElementsAre(testing::HasSubstr("what an extension had started")));
}

// Between two trials nobody is there to be blamed.
TEST_F(TrainerBackendTest, WhatAnExtensionLeavesBehindAfterItsTrialIsToldAsAWarning) {
  scene_.behave(leaves_orphan());
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().make_ready(with("mine.skip", true), tuner::ProcessChoice::reuse, nullptr));
  job().stop();
  EXPECT_THAT(warnings_, testing::ElementsAre(testing::HasSubstr("what an extension had started")));
}

// As in a guard of two builds.
TEST_F(TrainerBackendTest, TheTrainerOfAnotherJobIsNotTakenForWhatAnExtensionLeftBehind) {
  TrainerBackendSpec spec = job_spec();
  spec.folder = scene_.folder() / "other";
  std::filesystem::create_directory(spec.folder);
  TrainerBackend other(std::move(spec), cancel_);
  const Configuration skip = with("mine.skip", true);
  ASSERT_TRUE(job().start(skip));
  ASSERT_TRUE(other.start(skip));
  const auto fresh = job().make_ready(skip, tuner::ProcessChoice::fresh, nullptr);
  EXPECT_TRUE(fresh) << fresh.error().message();
  EXPECT_THAT(warnings_, testing::IsEmpty());
  const auto block = other.run_block(skip, {});
  EXPECT_TRUE(block) << block.error().message();
  EXPECT_EQ(trainers(), 3U) << "the other one went on";
}

TEST_F(TrainerBackendTest, ATrainerIsMadeReadyInAProcessOfItsOwnAtTheInitialState) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  EXPECT_FALSE(job().share_process(start_, keep));
  EXPECT_FALSE(job().share_process(start_, with("cudnn.benchmark", true)));
  EXPECT_TRUE(job().share_process(start_, with("loader.workers", std::int64_t{2})));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_EQ(trainers(), 2U);
  EXPECT_TRUE(blocks().empty());
  // Warmed, restored, and a few steps on, the same number in both.
  std::vector<Json> last;
  for (const int trainer : {process(0), process(1)}) {
    std::vector<Json> asked = scene_.requests();
    std::erase_if(asked, [&](const Json& one) { return one.at("trainer") != trainer; });
    ASSERT_GE(asked.size(), 6U);
    EXPECT_EQ(asked.at(asked.size() - 3).at("request"), "run");
    EXPECT_EQ(asked.at(asked.size() - 2).at("request"), "restore");
    EXPECT_EQ(asked.at(asked.size() - 2).at("name"), "initial");
    last.push_back(asked.back().at("minimum_steps"));
  }
  EXPECT_EQ(last[0], last[1]);

  // Once warm it is restored only.
  scene_.forget_requests();
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_EQ(scene_.requests("restore").size(), 1U);
  EXPECT_EQ(scene_.requests("run").size(), 1U);
}

TEST_F(TrainerBackendTest, AProcessThatIsToBeAloneIsTheOnlyOne) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::alone, nullptr));
  EXPECT_EQ(trainers(), 3U);
  ASSERT_EQ(scene_.requests("stop").size(), 2U);
  const Json third = scene_.requests("hello").at(2);
  for (const Json& stop : scene_.requests("stop"))
    EXPECT_LT(stop.at("line"), third.at("line")) << "before it starts";
}

TEST_F(TrainerBackendTest, AFreshProcessTakesThePlaceOfTheRunningOne) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::fresh, nullptr));
  EXPECT_EQ(trainers(), 3U);
  EXPECT_EQ(scene_.requests("stop").size(), 1U);
  EXPECT_EQ(scene_.requests("stop").at(0).at("trainer"), process(1));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_EQ(trainers(), 3U) << "the other one stays";
}

// --- Trainers that are still at work after a block, some with threads that spin as libgomp's may ---

// A thread that works until the trainer ends, or for `for_ms` after each block.
Json stirs(const std::string& request, const std::string& when, int for_ms = 0) {
  Json fault = {{"do", "stir"}, {"request", request}, {"when", {when}}};
  if (for_ms > 0) fault["for_ms"] = for_ms;
  return fault;
}

constexpr const char* kSpins = "env.GOMP_SPINCOUNT";

// What one trainer without an extension does says nothing about the next one.
TEST_F(TrainerBackendTest, ACandidateThatSpinsDoesNotHideThoseAfterIt) {
  Json puts_off = stirs("run", "mine.skip=on");
  puts_off["once"] = true;
  scene_.behave({{"faults", {stirs("load", "env.GOMP_SPINCOUNT=infinite"), puts_off}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration spinning = with(kSpins, std::string("infinite"));
  ASSERT_TRUE(job().run_block(start_, {}));
  const auto spun = job().run_block(spinning, {.reference = &start_});
  EXPECT_TRUE(spun) << spun.error().message();
  ASSERT_TRUE(job().run_block(start_, {}));
  const auto block = job().run_block(with("mine.skip", true), {.reference = &start_});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(block.error().what, testing::HasSubstr("past its blocks"));
  EXPECT_TRUE(job().run_block(start_, {})) << "the reference goes on";
}

TEST_F(TrainerBackendTest, AnExtensionIsNotTimedWhileItsOwnTrainerSpins) {
  scene_.behave({{"faults",
                  {stirs("load", "env.GOMP_SPINCOUNT=infinite"),
                   stirs("load", "env.OMP_WAIT_POLICY=active")}}});
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  const std::vector<std::pair<std::string, std::string>> settings = {
      {kSpins, "infinite"}, {"env.OMP_WAIT_POLICY", "active"}};
  for (const auto& [name, value] : settings) {
    Configuration both = with("mine.skip", true);
    both.set(name, value);
    const auto block = job().run_block(both, {.reference = &start_});
    ASSERT_FALSE(block) << name;
    EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(block.error().what, testing::HasSubstr("cannot be timed while threads spin"));
    EXPECT_TRUE(job().run_block(start_, {})) << "the reference goes on";
  }
}

// What an extension of both does may wait for the threads that hide it.
TEST_F(TrainerBackendTest, ThreadsThatSpinAreNoPlaceToHideForAnExtensionOfBoth) {
  scene_.behave({{"faults", {stirs("load", "env.GOMP_SPINCOUNT=infinite")}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration skipping = with("mine.skip", true);
  Configuration spinning = skipping;
  spinning.set(kSpins, std::string("infinite"));
  ASSERT_TRUE(job().run_block(skipping, {}));
  const auto block = job().run_block(spinning, {.reference = &skipping});
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().what, testing::HasSubstr("cannot be timed while threads spin"));
  // Where the recipe starts with both, other knobs can be tuned.
  ASSERT_TRUE(job().run_block(spinning, {}));
  Configuration candidate = spinning;
  candidate.set("loader.workers", std::int64_t{2});
  const auto other = job().run_block(candidate, {.reference = &spinning});
  EXPECT_TRUE(other) << other.error().message();
}

TEST_F(TrainerBackendTest, AnExtensionOfBothIsSeenOutWhereALiveKnobTellsThemApart) {
  Json puts_off = stirs("run", "loader.workers=2");
  puts_off["once"] = true;
  scene_.behave({{"faults", {puts_off}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration skipping = with("mine.skip", true);
  Configuration candidate = skipping;
  candidate.set("loader.workers", std::int64_t{2});
  ASSERT_TRUE(job().run_block(skipping, {}));
  const auto block = job().run_block(candidate, {.reference = &skipping});
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().what, testing::HasSubstr("past its blocks"));
}

// That is the candidate's bad luck, and never ends the run.
TEST_F(TrainerBackendTest, AnExtensionIsNotTimedBesideAReferenceThatSpins) {
  scene_.behave({{"faults", {stirs("load", "env.GOMP_SPINCOUNT=infinite")}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration spinning = with(kSpins, std::string("infinite"));
  ASSERT_TRUE(job().run_block(spinning, {}));
  const auto block = job().run_block(with("mine.skip", true), {.reference = &spinning});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(block.error().what, testing::HasSubstr("the trainer of the reference"));
  EXPECT_THAT(block.error().what, testing::HasSubstr("cannot be timed while threads spin"));
  EXPECT_TRUE(job().run_block(spinning, {}));
  // No extension tells these two apart.
  EXPECT_TRUE(job().run_block(start_, {.reference = &spinning}));
}

// As what omp_wait_policy proposes does.
TEST_F(TrainerBackendTest, AnExtensionIsTimedBesideAReferenceThatSpinsForAWhile) {
  scene_.behave({{"faults", {stirs("run", "env.GOMP_SPINCOUNT=300000", /*for_ms=*/30)}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration spinning = with(kSpins, std::string("300000"));
  Configuration candidate = spinning;
  candidate.set("mine.skip", true);
  for (int pair = 0; pair < 3; ++pair) {
    ASSERT_TRUE(job().run_block(spinning, {}));
    const auto block = job().run_block(candidate, {.reference = &spinning});
    EXPECT_TRUE(block) << block.error().message();
  }
}

// A busy machine may have kept it from its rest.
TEST_F(TrainerBackendTest, OneThatComesToRestAfterAllIsSeenOutAgain) {
  Json once = stirs("load", "memory.malloc=keep", /*for_ms=*/5000);
  once["once"] = true;
  scene_.behave({{"faults", {once}}});
  ASSERT_TRUE(job().start(start_));
  const Configuration keep = with("memory.malloc", std::string("keep"));
  Configuration candidate = keep;
  candidate.set("mine.skip", true);
  ASSERT_TRUE(job().run_block(keep, {}));
  EXPECT_FALSE(job().run_block(candidate, {.reference = &keep}));
  bool is_timed = false;
  for (int block = 0; block < 400 && !is_timed; ++block) {
    const auto of_reference = job().run_block(keep, {});
    ASSERT_TRUE(of_reference) << of_reference.error().message();
    is_timed = job().run_block(candidate, {.reference = &keep}).has_value();
  }
  EXPECT_TRUE(is_timed);
}

}  // namespace
}  // namespace autotuned::daemon
