// SPDX-License-Identifier: Apache-2.0
// Trainers whose scheduling is changed.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/trainers/trainer_backend_scene.hpp"

namespace autotuned::daemon {
namespace {

// A trainer with memory.malloc=keep misbehaves at `request`.
Json changes(const std::string& what, const std::string& request, bool leaves = false) {
  return {{"block_lasts_ms", 30},
          {"faults",
           {{{"do", what},
             {"leaves", leaves},
             {"request", request},
             {"when", {"memory.malloc=keep"}},
             {"once", true}}}}};
}

TEST_F(TrainerBackendTest, ACandidateThatSlowsTheWaitingTrainerFails) {
  scene_.behave(changes("slow_siblings", "run"));
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  const auto block = job().run_block(keep, {.reference = &start_});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  EXPECT_TRUE(block.error().is_disturbance);
  EXPECT_THAT(
      block.error().what,
      testing::HasSubstr("the scheduling of the trainer (process " + std::to_string(process(0)) +
                         ") was changed from outside while it waited: scheduling policy (SCHED_"));
  EXPECT_THAT(block.error().what, testing::HasSubstr("in 1 thread; a plugin may have done it"));
  const auto next = job().run_block(start_, {});
  EXPECT_TRUE(next) << next.error().message();
  EXPECT_EQ(trainers(), 3U) << "nothing is timed in the slowed one any more";
}

TEST_F(TrainerBackendTest, ATrainerThatWasSlowedBeforeItsBlockIsNotTimed) {
  scene_.behave(changes("slow_siblings", "load"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  ASSERT_TRUE(job().make_ready(with("memory.malloc", std::string("keep")),
                               tuner::ProcessChoice::reuse, nullptr));
  const auto block = job().run_block(start_, {});
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().what, testing::HasSubstr("was changed from outside while it waited"));
  const auto alone = job().run_block(start_, {});
  EXPECT_TRUE(alone) << alone.error().message();
}

// What a trial has done to a trainer is not held against the next one, nor against a profile.
TEST_F(TrainerBackendTest, ATrainerThatWasSlowedIsReplacedBeforeATrialAndAProfile) {
  const Configuration keep = with("memory.malloc", std::string("keep"));
  Json behaviour = changes("slow_siblings", "load");
  behaviour["faults"][0].erase("once");
  scene_.behave(behaviour);
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_EQ(trainers(), 3U);
  const auto block = job().run_block(start_, {});
  EXPECT_TRUE(block) << block.error().message();

  ASSERT_TRUE(job().make_ready(keep, tuner::ProcessChoice::fresh, nullptr));
  EXPECT_EQ(trainers(), 4U);
  const auto profile = job().profile(start_);
  EXPECT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(trainers(), 5U);
}

// The same of one that became less urgent outside of a block, in the trial before.
TEST_F(TrainerBackendTest, TrainersOfDifferentPrioritiesAreReplacedBeforeATrial) {
  scene_.behave(changes("yield", "restore"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(with("memory.malloc", std::string("keep")),
                               tuner::ProcessChoice::reuse, nullptr));
  ASSERT_TRUE(job().make_ready(start_, tuner::ProcessChoice::reuse, nullptr));
  EXPECT_EQ(trainers(), 3U);
  const auto block = job().run_block(start_, {});
  EXPECT_TRUE(block) << block.error().message();
}

// It goes on for ever if nothing is found: the limit of the test ends it. What is done before a block shows in the
// comparison.
TEST_F(TrainerBackendTest, ATrainerThatIsSlowedWhileItRunsFailsTheBlock) {
  scene_.behave(changes("slow_siblings", "load", /*leaves=*/true));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(with("memory.malloc", std::string("keep")), {}));
  auto block = job().run_block(start_, {});
  while (block)
    block = job().run_block(start_, {});
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  EXPECT_TRUE(block.error().is_disturbance);
  EXPECT_THAT(block.error().what,
              testing::AnyOf(testing::HasSubstr("was changed from outside while it was timed"),
                             testing::HasSubstr("are scheduled as SCHED_")));
}

TEST_F(TrainerBackendTest, TrainersOfDifferentPrioritiesAreNotCompared) {
  scene_.behave(changes("yield", "load"));
  ASSERT_TRUE(job().start(start_));
  const auto block = job().run_block(with("memory.malloc", std::string("keep")), {});
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().kind, ErrorKind::unsupported);
  EXPECT_TRUE(block.error().is_disturbance);
  EXPECT_THAT(block.error().what, testing::HasSubstr("are scheduled as SCHED_"));
  EXPECT_THAT(block.error().what, testing::HasSubstr("changed the priority of one"));
  const auto next = job().run_block(start_, {});
  EXPECT_TRUE(next) << next.error().message();
}

// Short stops take no CPU time, and another program can make them while the one that started it waits.
TEST_F(TrainerBackendTest, ABlockInWhichTheTrainerIsStoppedIsNotTimed) {
  Json behaviour = changes("stop_self", "run");
  behaviour["faults"][0].erase("once");  // its warm-up comes first, and is not timed
  scene_.behave(behaviour);
  const Configuration keep = with("memory.malloc", std::string("keep"));
  ASSERT_TRUE(job().start(start_));
  ASSERT_TRUE(job().run_block(start_, {}));
  const auto block = job().run_block(keep, {.reference = &start_});
  ASSERT_FALSE(block);
  EXPECT_TRUE(block.error().is_disturbance);
  EXPECT_THAT(block.error().what,
              testing::HasSubstr("was stopped and continued from outside while it was timed"));
  const auto other = job().run_block(start_, {});
  EXPECT_TRUE(other) << other.error().message();
}

}  // namespace
}  // namespace autotuned::daemon
