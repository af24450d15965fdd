// SPDX-License-Identifier: Apache-2.0
// The long forms are worth as much as what they would notice.
#include "tests/faults/evidence.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/trial.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::faults {
namespace {

Json trial(int number, const char* verdict, const char* kind = "proposal") {
  TrialRecord record;
  record.number = number;
  record.plugin = "set_to_none";
  record.reference.set("optimizer.set_to_none", false);
  record.change.set("optimizer.set_to_none", true);
  record.estimate = {.ratio = 1.3, .low = 1.25, .high = 1.35, .pairs = 20};
  record.kind = *trial_kind_from(kind);
  record.verdict = *verdict_from(verdict);
  record.reason = "because";
  return record.to_json("r-1");
}

Outcome ended(const std::vector<Json>& trials) {
  const Json run = {{"state", "finished"}, {"training", {{"steps", 10}}}, {"trials", trials}};
  return {.code = 0, .out = to_line(run) + "\n", .err = ""};
}

// How much is found to be wrong.
template <class Check>
int noticed(Check check) {
  const int before = wrong();
  check();
  return wrong() - before;
}

TEST(Evidence, RunThatEndedRightIsRight) {
  EXPECT_EQ(noticed([] {
              check_right(ended({trial(1, "interrupted"), trial(2, "interrupted"),
                                 trial(3, "accepted"), trial(4, "accepted", "confirmation")}),
                          "a run");
            }),
            0);
}

TEST(Evidence, WhatIsDecidedTwiceIsNoticedWhateverTheVerdict) {
  for (const char* verdict : {"accepted", "rejected", "failed"}) {
    for (const char* other : {"accepted", "rejected", "failed"}) {
      EXPECT_EQ(noticed([&] {
                  check_right(ended({trial(1, verdict), trial(2, other)}), "a run");
                }),
                1);
    }
  }
}

TEST(Evidence, TrialLeftRunningIsNoticed) {
  EXPECT_EQ(noticed([] { check_right(ended({trial(1, "running")}), "a run"); }), 1);
}

TEST(Evidence, WhatWasSaidMustBeStoredAsItWasSaid) {
  const Outcome outcome{
      .code = 0,
      .out = "",
      .err =
          "run r-1 of small on cpu\n"
          "rejected   set_to_none: optimizer.set_to_none off → on, 1.30 x "
          "(1.25 to 1.35)\n"
          "           because\n"
          "tuned      nothing faster was confirmed: the starting configuration stays\n"};
  const auto said = said_trials(outcome);
  ASSERT_EQ(said.size(), 1);
  EXPECT_EQ(said_finished(outcome), 1);
  EXPECT_EQ(said_finished({.code = 137, .out = "", .err = "accepted   set_to_n"}), 0) << "cut off";
  const auto missing = [&](const std::vector<std::string>& lines, const Json& stored) {
    return noticed([&] { check_said(lines, {{"r-1.1", to_line(stored)}}, "a run"); });
  };
  EXPECT_EQ(missing(said, trial(1, "rejected")), 0);
  EXPECT_EQ(missing(said, trial(1, "accepted")), 1);
  Json changed = trial(1, "rejected");
  changed["ratio"] = 1.4;
  EXPECT_EQ(missing(said, changed), 1);
  EXPECT_EQ(missing({said[0], said[0]}, trial(1, "rejected")), 1) << "one stored, two said";
  EXPECT_EQ(missing({}, trial(1, "rejected")), 0);
}

std::vector<Json> training(const std::string& plan, const std::vector<int>& steps) {
  const std::string checkpoint = "out/checkpoint-r-1.pt";
  std::vector<Json> requests;
  requests.push_back({{"request", "train"}, {"checkpoint_path", checkpoint}, {"plan", plan}});
  for (const int step : steps) {
    requests.push_back(
        {{"request", "train_step"}, {"checkpoint_path", checkpoint}, {"step", step}});
  }
  return requests;
}

// One that was interrupted when it had begun step 4, and what came of it.
int wrong_with(const std::vector<Json>& rest) {
  std::vector<Json> requests = training("seed 1", {0, 1, 2, 3, 4});
  requests.insert(requests.end(), rest.begin(), rest.end());
  return noticed([&] { check_trainings(requests, "a run"); });
}

TEST(Evidence, TrainingThatWentBackOrIsAnothersIsNoticed) {
  EXPECT_EQ(wrong_with(training("seed 1", {4, 5, 6})), 0);
  EXPECT_EQ(wrong_with(training("seed 1", {5, 6})), 0) << "the checkpoint of step 4 was written";
  EXPECT_EQ(wrong_with(training("seed 1", {})), 0) << "it was over";
  EXPECT_EQ(wrong_with(training("seed 1", {0, 1, 2})), 1);
  EXPECT_EQ(wrong_with(training("seed 1", {3, 4})), 1);
  EXPECT_EQ(wrong_with(training("seed 2", {5, 6})), 1);
}

// A run into folder out, with its model and its checkpoint.
class EvidenceOfFiles : public testing::Test {
 protected:
  EvidenceOfFiles() {
    run_.output_dir = (scene_.folder() / "out").string();
    set_state(storage::RunState::training);
    scene_.folder().write("out/model.pt", "trained for 10 steps\n");
    scene_.folder().write("out/best.yaml", "autotuned: 1\n");
    scene_.folder().write("out/summary.json", R"({"run": "r-1"})");
    scene_.folder().write(kCheckpointFile, "seed 1\n");
  }
  void set_state(storage::RunState state, const std::string& error = "") {
    run_.state = state;
    run_.error = error;
    storage::must(history_.update_run(run_));
  }
  [[nodiscard]] int wrong_without(const std::string& file) const {
    const Files before = kept_files(scene_);
    EXPECT_TRUE(before.contains(file));
    std::filesystem::remove(scene_.folder() / file);
    return noticed([&] { check_files_kept(before, scene_, "a run"); });
  }
  [[nodiscard]] int wrong_results() const {
    return noticed([&] { check_results(scene_, "out"); });
  }
  [[nodiscard]] int wrong_runs() const {
    return noticed([&] { check_nothing_unfinished(scene_, "a run"); });
  }

  static constexpr const char* kCheckpointFile = "out/checkpoint-r-1.pt";
  const Scene scene_;
  storage::History history_ = storage::open_with_run(scene_.history(), "r-1");
  storage::RunRow run_ = storage::sample_run("r-1");
};

TEST_F(EvidenceOfFiles, ResultThatIsGoneIsNoticed) {
  EXPECT_EQ(wrong_without("out/model.pt"), 1);
  EXPECT_EQ(wrong_without("out/best.yaml"), 1);
  EXPECT_EQ(wrong_without("out/summary.json"), 1);
}

TEST_F(EvidenceOfFiles, CheckpointIsNeededUntilItsRunHasFinished) {
  EXPECT_EQ(wrong_without(kCheckpointFile), 1);
  scene_.folder().write(kCheckpointFile, "seed 1\n");
  set_state(storage::RunState::finished);
  EXPECT_EQ(wrong_without(kCheckpointFile), 0);
}

TEST_F(EvidenceOfFiles, ResultsAreThoseOfAFinishedRun) {
  EXPECT_EQ(wrong_results(), 1) << "it is training";
  set_state(storage::RunState::finished);
  EXPECT_EQ(wrong_results(), 0);
  scene_.folder().write("out/model.pt", "trained for 10 steps\n4 of them by another plan\n");
  EXPECT_EQ(wrong_results(), 1);
  scene_.folder().write("out/model.pt", "trained for 10 steps\n");
  scene_.folder().write("out/summary.json", "half a summ");
  EXPECT_EQ(wrong_results(), 1);
}

TEST_F(EvidenceOfFiles, RunThatIsLeftUnfinishedIsNoticed) {
  EXPECT_EQ(wrong_runs(), 1);
  set_state(storage::RunState::failed);
  EXPECT_EQ(wrong_runs(), 1) << "without a reason";
  set_state(storage::RunState::failed, "its trainer was killed");
  EXPECT_EQ(wrong_runs(), 0);
  set_state(storage::RunState::finished);
  EXPECT_EQ(wrong_runs(), 0);
}

}  // namespace
}  // namespace autotuned::faults
