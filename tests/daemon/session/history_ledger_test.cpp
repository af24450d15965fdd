// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/history_ledger.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

class HistoryLedgerTest : public testing::Test {
 protected:
  HistoryLedgerTest() {
    trial_.number = 1;
    trial_.plugin = "amp";
    trial_.risk = "numerics";
    trial_.change.set("precision.autocast", std::string("bf16"));
  }

  TemporaryFolder folder_;
  Result<storage::History> history_ =
      storage::History::open(folder_ / "history.db", storage::Access::read_write);
  storage::RunRow run_ = put_small_run(*history_);
  TrialRecord trial_;
  SystemClock clock_;
  std::vector<plugins::FoundPlugin> plugins_;
  std::vector<Json> events_;
  // What the history holds when an event is told: the fact must be there already.
  std::function<void(const Json&)> on_event_;
  HistoryLedger ledger_{*history_, run_, plugins_, clock_, [this](const Json& event) {
                          if (on_event_) on_event_(event);
                          events_.push_back(event);
                        }};
};

TEST_F(HistoryLedgerTest, StoresBeforeItTells) {
  int seen = 0;
  on_event_ = [&](const Json& event) {
    const std::string name = event.at("event");
    const auto trials = history_->trials(run_.id);
    ASSERT_TRUE(trials);
    ++seen;
    if (name == "trial_started") {
      EXPECT_EQ(trials->at(0).verdict, Verdict::running);
    } else if (name == "block") {
      // What a page draws of a trial that is going on.
      EXPECT_EQ(event.at("ratio_low"), 1.1);
      EXPECT_EQ(event.at("ratio_high"), 1.4);
      EXPECT_EQ(event.at("loss"), 0.5);
      EXPECT_EQ(event.at("peak_host_memory_bytes"), 1024);
      EXPECT_EQ(history_->blocks({run_.id, 1})->size(), 1);
    } else if (name == "checked") {
      EXPECT_EQ(history_->checks({run_.id, 1})->size(), 1);
    } else if (name == "trial_finished") {
      EXPECT_EQ(trials->at(0).verdict, Verdict::accepted);
    } else if (name == "baseline") {
      EXPECT_EQ(history_->run("last")->baseline_samples_per_second, 1000);
    } else if (name == "ceiling") {
      EXPECT_EQ(history_->run("last")->ceiling_samples_per_second, 4000);
      EXPECT_EQ(history_->run("last")->ceiling_ladder, event.at("ladder"));
      EXPECT_EQ(event.at("ladder")[0].at("reached_ratio"), 0.5);
      EXPECT_EQ(run_.ceiling_ladder.size(), 2U);
    } else if (name == "asking") {
      EXPECT_FALSE(history_->plugin_answers(run_.id)->at(0).is_answered);
    } else if (name == "answered") {
      EXPECT_TRUE(history_->plugin_answers(run_.id)->at(0).is_failure);
    } else {
      --seen;
    }
  };
  EXPECT_TRUE(ledger_.baseline({}, 1000));
  EXPECT_TRUE(ledger_.ceiling({4000, "compute", {{"raw_bytes", 2.0}, {"device_batch", 4.0}}}));
  EXPECT_TRUE(ledger_.asking("amp"));
  EXPECT_TRUE(ledger_.answered("amp", "threw", true));
  EXPECT_TRUE(ledger_.trial_started(trial_));
  TrialBlock block;
  block.pair = 1;
  block.block.last_loss = 0.5;
  block.block.peak_host_memory_bytes = 1024;
  EXPECT_TRUE(ledger_.block_measured(trial_, block, {1.2, 1.1, 1.4, 1}));
  EXPECT_TRUE(ledger_.checked(trial_, {"numerics", true, 1, "fine"}));
  trial_.verdict = Verdict::accepted;
  EXPECT_TRUE(ledger_.trial_finished(trial_));
  EXPECT_EQ(seen, 8);
}

TEST_F(HistoryLedgerTest, TellsWhatThoseWhoWatchNeed) {
  ledger_.progressed({.trials_done = 2,
                      .trials_expected = 3,
                      .budget = std::chrono::seconds(60),
                      .budget_spent = std::chrono::seconds(7)});
  EXPECT_TRUE(ledger_.trial_started(trial_));
  TrialBlock block;
  block.pair = 1;
  EXPECT_TRUE(ledger_.block_measured(trial_, block, {1.2, 1.1, 1.3, 5}));
  trial_.kind = TrialKind::ablation;
  trial_.verdict = Verdict::rejected;
  trial_.rejection = RejectionReason::no_gain;
  EXPECT_TRUE(ledger_.trial_finished(trial_));
  ASSERT_EQ(events_.size(), 4U);
  EXPECT_EQ(events_[0], Json({{"event", "tuning"},
                              {"trials_done", 2},
                              {"trials_expected", 3},
                              {"budget_ns", 60'000'000'000},
                              {"budget_spent_ns", 7'000'000'000}}));
  EXPECT_EQ(events_[2].at("ratio_low"), 1.1);
  EXPECT_EQ(events_[2].at("ratio_high"), 1.3);
  EXPECT_EQ(events_[3].at("drops_change"), true);
  trial_.kind = TrialKind::proposal;
  EXPECT_TRUE(ledger_.trial_finished(trial_));
  EXPECT_EQ(events_.back().at("drops_change"), false);
}

TEST_F(HistoryLedgerTest, StoresWhatWasFoundAndTellsNotesOnce) {
  tuner::StepProfile profile;
  profile.metrics = {{"step.duration_ns", 8e6}};
  profile.findings = {{.id = "data_loading",
                       .signal = "parts.data_loading_ratio",
                       .value = 0.31,
                       .threshold = 0.05,
                       .is_below = false,
                       .evidence = "31.0 % of the step",
                       .plugin = "num_workers",
                       .knob = "loader.workers",
                       .advice = "raise num_workers"}};
  profile.notes = {"the GPU was not recorded"};
  Configuration other;
  other.set("loader.workers", std::int64_t{2});
  EXPECT_TRUE(ledger_.profiled(run_.starting, profile));
  EXPECT_TRUE(ledger_.profiled(other, profile));
  const Json findings = {profile.findings[0].to_json()};
  ASSERT_EQ(events_.size(), 3U);
  EXPECT_EQ(events_[0], Json({{"event", "profiled"},
                              {"is_start", true},
                              {"metrics", profile.metrics},
                              {"findings", findings}}));
  EXPECT_EQ(events_[1], Json({{"event", "warning"}, {"text", "the GPU was not recorded"}}));
  EXPECT_EQ(events_[2].at("is_start"), false);
  const auto profiles = history_->profiles(run_.id);
  ASSERT_TRUE(profiles);
  ASSERT_EQ(profiles->size(), 2U);
  EXPECT_EQ(profiles->at(0).at("findings"), findings);
}

TEST_F(HistoryLedgerTest, WhatIsNotStoredIsNotTold) {
  run_.id = {"r-20261121-000000"};
  EXPECT_FALSE(ledger_.baseline({}, 1000));
  EXPECT_FALSE(ledger_.trial_started(trial_));
  EXPECT_FALSE(ledger_.asking("amp"));
  EXPECT_TRUE(events_.empty());
}

}  // namespace
}  // namespace autotuned::daemon
