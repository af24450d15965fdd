// SPDX-License-Identifier: Apache-2.0
// Which run the same command goes on with, in which order runs stand, and how long a lock is waited for.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <chrono>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

class UnfinishedTest : public ::testing::Test {
 protected:
  void add_run(const std::string& id, RunState state, std::int64_t started_unix_ns,
               const std::string& recipe_hash, const std::string& environment_key) {
    put_sample_run(history_, id, state, started_unix_ns, recipe_hash, environment_key);
  }
  void add_trial(const std::string& run, const std::string& plugin) {
    TrialRecord trial = sample_trial(1);
    trial.plugin = plugin;
    ASSERT_TRUE(history_.put_trial(RunId{run}, trial));
  }

  TemporaryFolder folder_;
  History history_ = open_with_run(folder_ / "history.db");
  const RunKey key_{.recipe_hash = "h2", .environment_key = "e1", .plan = sample_run().plan};
};

TEST_F(UnfinishedTest, UnfinishedRunIsTheNewestOfItsJob) {
  EXPECT_FALSE(history_.unfinished_run(key_).value());
  add_run("r-tuning", RunState::tuning, 10, "h2", "e1");
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-tuning");
  add_run("r-cancelled", RunState::cancelled, 20, "h2", "e1");
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-cancelled");
  add_run("r-training", RunState::training, 30, "h2", "e1");
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-training");
  add_run("r-elsewhere", RunState::tuning, 40, "h2", "e2");
  add_run("r-failed", RunState::failed, 50, "h2", "e1");
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-training");
  add_run("r-finished", RunState::finished, 60, "h2", "e1");
  EXPECT_FALSE(history_.unfinished_run(key_).value());
}

// Each of these would train something else.
TEST_F(UnfinishedTest, UnfinishedRunIsOneOfThePlan) {
  RunKey other = key_;
  other.plan = "another";
  add_run("r-training", RunState::training, 10, "h2", "e1");
  EXPECT_FALSE(history_.unfinished_run(other).value());
  EXPECT_EQ(history_.other_unfinished_run(other).value()->id.text, "r-training");
  EXPECT_FALSE(history_.other_unfinished_run(key_).value());
  {
    const auto at_work = history_.claim({"r-training"}).value();
    EXPECT_FALSE(history_.other_unfinished_run(other).value());
  }
  RunRow finished = sample_run("r-other");
  finished.recipe_hash = "h2";
  finished.plan = other.plan;
  finished.state = RunState::finished;
  ASSERT_TRUE(history_.put_run(finished));
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-training");
}

TEST_F(UnfinishedTest, TuningOnlyContinuesNoTraining) {
  RunKey tuning = key_;
  tuning.is_tune_only = true;
  add_run("r-training", RunState::training, 10, "h2", "e1");
  EXPECT_FALSE(history_.unfinished_run(tuning).value());
  EXPECT_EQ(history_.other_unfinished_run(tuning).value()->id.text, "r-training");
  RunRow tuned = sample_run("r-tuned");
  tuned.recipe_hash = "h2";
  tuned.is_tune_only = true;
  for (const RunState state : {RunState::tuning, RunState::finished}) {
    tuned.state = state;
    ASSERT_TRUE(state == RunState::tuning ? history_.put_run(tuned) : history_.update_run(tuned));
    EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-training");
    EXPECT_EQ(history_.unfinished_run(tuning).value().has_value(), state == RunState::tuning);
  }
}

TEST_F(UnfinishedTest, TrainingContinuesWhatWasOnlyToBeTuned) {
  add_run("r-failed", RunState::failed, 10, "h2", "e1");
  RunRow tuned = sample_run("r-tuned");
  tuned.recipe_hash = "h2";
  tuned.is_tune_only = true;
  tuned.state = RunState::cancelled;
  ASSERT_TRUE(history_.put_run(tuned));
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-tuned");
  tuned.is_tune_only = false;
  ASSERT_TRUE(history_.update_run(tuned));
  EXPECT_FALSE(history_.run("r-tuned")->is_tune_only);
}

// A battery that is empty, a virtual machine that is resumed: dates go back.
TEST_F(UnfinishedTest, OrderIsThatOfTheBeginningWhateverTheClockSaid) {
  add_run("r-before", RunState::finished, 3'000'000'000'000'000'000, "h2", "e1");
  add_run("r-after", RunState::tuning, 5, "h2", "e1");
  EXPECT_EQ(history_.unfinished_run(key_).value()->id.text, "r-after");
  EXPECT_EQ(history_.run("last")->id.text, "r-after");
  EXPECT_EQ(history_.runs({}).value().at(0).id.text, "r-after");
  add_trial("r-before", "first");
  add_trial("r-after", "second");
  EXPECT_EQ(history_.earlier_trials("e1", "h2", 1).value().at(0).plugin, "second");
  const auto both = history_.earlier_trials("e1", "h2", 2).value();
  EXPECT_EQ(both.at(0).plugin, "first");
  EXPECT_EQ(both.at(1).plugin, "second");
}

// The one who waits says how long.
TEST_F(UnfinishedTest, WaitsForALockAsLongAsPatienceLasts) {
  SQLite::Database other((folder_ / "history.db").string(), SQLite::OPEN_READWRITE);
  other.exec("BEGIN IMMEDIATE");
  int asked = 0;
  ASSERT_TRUE(history_.set_patience([&](std::chrono::milliseconds) { return ++asked < 3; }));
  const auto refused = history_.put_recipe(sample_recipe("h7"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::busy);
  EXPECT_EQ(asked, 3);
  std::chrono::milliseconds longest{-1};
  ASSERT_TRUE(history_.set_patience([&](std::chrono::milliseconds waited) {
    EXPECT_GE(waited, longest);
    longest = waited;
    if (++asked == 6) other.exec("ROLLBACK");
    return true;
  }));
  EXPECT_TRUE(history_.put_recipe(sample_recipe("h7")));
  EXPECT_EQ(asked, 6);
}

TEST_F(UnfinishedTest, FailedRunIsNotContinued) {
  add_run("r-failed", RunState::failed, 10, "h2", "e1");
  EXPECT_FALSE(history_.unfinished_run(key_).value());
}

TEST(RunStateTest, NamesAreStored) {
  for (const char* name : {"tuning", "training", "finished", "failed", "cancelled"}) {
    const auto state = run_state_from(name);
    ASSERT_TRUE(state) << name;
    EXPECT_EQ(to_string(*state), name);
  }
  EXPECT_FALSE(run_state_from("done"));
}

}  // namespace
}  // namespace autotuned::storage
