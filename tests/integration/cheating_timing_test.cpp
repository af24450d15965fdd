// SPDX-License-Identifier: Apache-2.0
// Plugins that look faster than they are, each in another way, through a whole run: none is kept, and the reason names
// what it did. The training of each is bit for bit the honest one.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

class CheatingTiming : public testing::Test {
 protected:
  CheatingTiming() {
    scene_.set("AUTOTUNED_TRAINER=" + (tests::build_folder() / "bin/autotuned-trainer").string());
    folder_ = scene_.folder() / "plugins";
    std::filesystem::create_directory(folder_);
    for (const char* name : {"timing_cheats", "tiny"}) {
      const std::string file = std::string("lib") + name + "_trainer.so";
      std::filesystem::copy_file(tests::build_folder() / "tests/fixture_plugins" / name / file,
                                 folder_ / file);
    }
    scene_.folder().write("recipe.yaml",
                          "autotuned: 1\nname: small\ndevice: cpu\nmodel: {plugin: tiny}\n"
                          "data: {plugin: tiny, samples: 2048}\n"
                          "input:\n  - scale: {by: 1/255}\n"
                          "optimizer: {type: sgd, lr: 0.1}\n"
                          "train: {epochs: 2, batch_size: 32}\n"
                          "start: {timing_cheats.timing: honest}\n"
                          "tune: {plugins: [timing_cheats], budget: 60s}\noutput: {dir: '" +
                              (scene_.folder() / "out").string() + "'}\n");
  }

  // A run in which a plugin proposes `change`, alone.
  Json tune(const std::string& change) const {
    scene_.folder().write(
        "plugins/timing_cheats.yaml",
        "plugin: 1\nname: timing_cheats\nversion: '1'\nsummary: Proposes a cheat.\n"
        "try:\n  - " +
            change + "\nexpect: 2\nreason: a test\n");
    const Outcome outcome = scene_.run({"--tune-only", "--plugin-dir", folder_.string()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  }

  // It was tried, is not part of the result, and some trial says why.
  static void expect_refused(const Json& run, const std::string& knob, const Json& honest,
                             const std::string& why) {
    const Json& trials = run.at("trials");
    ASSERT_FALSE(trials.empty()) << run;
    EXPECT_EQ(trials.at(0).at("plugin"), "timing_cheats");
    EXPECT_EQ(run.at("best").at("configuration").at(knob), honest) << trials.dump(1);
    EXPECT_THAT(trials.dump(), HasSubstr(why));
  }

  Scene scene_;
  std::filesystem::path folder_;
};

TEST_F(CheatingTiming, WorkThatIsDeferredPastTheBlockIsFound) {
  expect_refused(tune("timing_cheats.timing: defers"), "timing_cheats.timing", "honest",
                 "past its blocks");
}

TEST_F(CheatingTiming, WorkThatIsDoneBetweenBlocksIsFound) {
  expect_refused(tune("timing_cheats.timing: prefills"), "timing_cheats.timing", "honest",
                 "past its blocks");
}

TEST_F(CheatingTiming, AProcessThatSlowsTheNeighbourIsFound) {
  expect_refused(tune("timing_cheats.child: true"), "timing_cheats.child", false,
                 "slows its neighbour");
}

// Most of its blocks are faster; all of them together are not.
TEST_F(CheatingTiming, ARareStallIsFound) {
  const Json run = tune("timing_cheats.timing: stalls");
  expect_refused(run, "timing_cheats.timing", "honest", "rare stalls");
  const Json& trial = run.at("trials").at(0);
  EXPECT_GT(trial.at("ratio"), 1.0) << trial.dump(1);
  EXPECT_LT(trial.at("total_ratio"), 1.0) << trial.dump(1);
}

TEST_F(CheatingTiming, AClockThatLiesIsFound) {
  expect_refused(tune("timing_cheats.timing: lies"), "timing_cheats.timing", "honest",
                 "a clock that is wrong");
}

}  // namespace
}  // namespace autotuned
