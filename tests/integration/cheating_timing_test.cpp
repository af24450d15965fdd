// SPDX-License-Identifier: Apache-2.0
// Plugins that look faster than they are, each in another way, through a whole run: none is kept, and the reason names
// what it did. The training of each is bit for bit the honest one.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::Contains;
using testing::ContainsRegex;

class CheatingTiming : public testing::Test {
 protected:
  CheatingTiming() {
    folder_ = scene_.use_trainer_plugins({"timing_cheats", "tiny"});
    write_recipe("{plugin: tiny}", "batch_size: 32", "honest", "180s");
  }

  void write_recipe(const std::string& model, const std::string& batch, const std::string& timing,
                    const std::string& budget) const {
    scene_.write_job("model: " + model +
                     "\ndata: {plugin: tiny, samples: 2048}\ninput: [scale: {by: 1/255}]\n"
                     "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 2, " +
                     batch + "}\nstart: {timing_cheats.timing: " + timing +
                     "}\ntune: {plugins: [timing_cheats], budget: " + budget + "}\n");
  }
  // Steps that sleep for a part of their time, whose rate varies less beside other programs: a trial measures a pair of
  // processes until their rates are known. Not for cheats that work while a step sleeps.
  void write_sleeping_recipe() const {
    write_recipe("{plugin: tiny, wait_ms: 1}", "batch_size: 32", "honest", "180s");
  }
  // Operators large enough for several threads, which may spin.
  void write_threaded_recipe(const std::string& timing) const {
    write_recipe("{plugin: tiny, hidden: 1024}", "batch_size: 64", timing, "120s");
  }

  // A run in which a plugin proposes `change`, alone; lines after it are further changes.
  Json tune(const std::string& change) const {
    scene_.write_plugin("timing_cheats", change);
    return result_of(scene_.run({"--tune-only", "--plugin-dir", folder_.string()}));
  }

  // It was tried, is not part of the result, and some trial says why.
  static void expect_refused(const Json& run, const std::string& knob, const Json& honest,
                             const std::string& why) {
    const Json& trials = run.at("trials");
    ASSERT_FALSE(trials.empty()) << run;
    EXPECT_EQ(trials.at(0).at("plugin"), "timing_cheats");
    EXPECT_EQ(run.at("best").at("configuration").at(knob), honest) << trials.dump(1);
    std::vector<std::string> reasons;
    for (const Json& trial : trials)
      reasons.push_back(trial.at("reason"));
    EXPECT_THAT(reasons, Contains(ContainsRegex(why)));
  }

  Scene scene_;
  std::filesystem::path folder_;
};

// A guard that refused every extension would pass all that follow.
TEST_F(CheatingTiming, LessWorkInEachStepIsKept) {
  write_sleeping_recipe();
  const Json run = tune("timing_cheats.timing: saves");
  const Json& trials = run.at("trials");
  ASSERT_FALSE(trials.empty()) << run;
  EXPECT_EQ(trials.at(0).at("plugin"), "timing_cheats");
  EXPECT_EQ(trials.at(0).at("verdict"), "accepted") << trials.dump(1);
  EXPECT_EQ(trials.back().at("kind"), "confirmation") << trials.dump(1);
  EXPECT_EQ(run.at("best").at("configuration").at("timing_cheats.timing"), "saves")
      << trials.dump(1);
}

TEST_F(CheatingTiming, WorkThatIsDeferredPastTheBlockIsFound) {
  expect_refused(tune("timing_cheats.timing: defers"), "timing_cheats.timing", "honest",
                 "the trainer does work after or between its blocks");
}

TEST_F(CheatingTiming, WorkThatIsDoneBetweenBlocksIsFound) {
  expect_refused(tune("timing_cheats.timing: prefills"), "timing_cheats.timing", "honest",
                 "the trainer does work after or between its blocks");
}

TEST_F(CheatingTiming, AProcessThatSlowsTheNeighbourIsFound) {
  expect_refused(tune("timing_cheats.child: true"), "timing_cheats.child", false,
                 "during the block of the other trainer: a knob or a plugin slows its neighbour");
}

// Nothing is faster: the reference, which waits meanwhile, is made slow from then on.
TEST_F(CheatingTiming, AReferenceThatIsSlowedWhileItWaitsIsFound) {
  expect_refused(tune("timing_cheats.timing: slows"), "timing_cheats.timing", "honest",
                 "the scheduling of the trainer .* was changed from outside");
}

// Most of its blocks are faster; all of them together are not.
TEST_F(CheatingTiming, ARareStallIsFound) {
  write_sleeping_recipe();
  const Json run = tune("timing_cheats.timing: stalls");
  expect_refused(run, "timing_cheats.timing", "honest",
                 "the median block is faster but all blocks together are slower");
  const Json& trial = run.at("trials").at(0);
  EXPECT_GT(trial.at("ratio"), 1.0) << trial.dump(1);
  EXPECT_LT(trial.at("total_ratio"), 1.0) << trial.dump(1);
}

TEST_F(CheatingTiming, AClockThatLiesIsFound) {
  expect_refused(tune("timing_cheats.timing: lies"), "timing_cheats.timing", "honest",
                 "or its clock is wrong");
}

// A permitted change comes first whose trainer is never at rest: its threads spin. It says nothing about what comes after it.
TEST_F(CheatingTiming, ACandidateThatSpinsDoesNotHideAClockThatLies) {
  write_threaded_recipe("none");
  const Json run = tune("env.GOMP_SPINCOUNT: infinite\n  - timing_cheats.timing: rushes");
  ASSERT_TRUE(run.at("trials").at(0).at("change").contains("env.GOMP_SPINCOUNT")) << run;
  // The second, if the first one won.
  expect_refused(run, "timing_cheats.timing", "none", "or its clock is wrong|while threads spin");
}

TEST_F(CheatingTiming, ThreadsThatSpinInTheSameChangeHideNothing) {
  write_threaded_recipe("honest");
  expect_refused(tune("{env.OMP_WAIT_POLICY: active, timing_cheats.timing: defers}"),
                 "timing_cheats.timing", "honest", "while threads spin");
}

}  // namespace
}  // namespace autotuned
