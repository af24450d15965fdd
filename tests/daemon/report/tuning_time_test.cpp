// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/tuning_time.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/report/report.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

// 100 s of tuning, with this budget.
storage::RunRow run_with_budget_of(std::int64_t seconds) {
  storage::RunRow run = sample_record().run;
  run.training["budget_ns"] = seconds * 1'000'000'000;
  return run;
}

Json trial_beyond(int number, const char* by) {
  return {{"trial", number}, {"by", by}};
}

Json untried_of(int count, const std::string& plugin) {
  Json untried = Json::array();
  for (int i = 0; i < count; ++i)
    untried.push_back(
        {{"plugin", i == 0 ? plugin : "threads"}, {"change", "layout.memory_format a → b"}});
  return untried;
}

TEST(TuningTime, AnOverrunNamesTheTrialThatEndedAfterTheBudget) {
  storage::RunRow run = run_with_budget_of(90);
  run.training[kBeyondBudget] = Json::array({trial_beyond(4, "confirmation")});
  EXPECT_EQ(overrun_text(run),
            "the budget was 1 min 30 s, and trial 4 (confirmation) ended after that");
  run.training[kBeyondBudget].push_back(trial_beyond(5, "confirmation"));
  EXPECT_EQ(overrun_text(run),
            "the budget was 1 min 30 s, and trial 4 (confirmation) and trial 5 (confirmation) "
            "ended after that");
  run.training[kBeyondBudget] = Json::array();
  EXPECT_EQ(overrun_text(run),
            "the budget was 1 min 30 s, and measurements outside of trials ended after that");
  run.training[kBeyondBudget] = nullptr;
  EXPECT_EQ(overrun_text(run), "the budget was 1 min 30 s") << "of a run that was continued";
  run.training.erase(kBeyondBudget);
  EXPECT_EQ(overrun_text(run), "the budget was 1 min 30 s") << "of an older version";
}

TEST(TuningTime, WhatIsWithinTheBudgetNeedsNoWord) {
  EXPECT_EQ(overrun_text(run_with_budget_of(100)), "");
  storage::RunRow run = run_with_budget_of(100);
  run.tuning_duration_ns += 900'000'000;
  run.training[kBeyondBudget] = Json::array({trial_beyond(4, "confirmation")});
  EXPECT_EQ(overrun_text(run), "") << "the last pair of blocks";
  run.training = Json::object();
  EXPECT_EQ(overrun_text(run), "") << "of a version that did not store it";
}

TEST(TuningTime, AnOverrunStandsBelowTheTimeOfTheTuning) {
  RunRecord record = sample_record();
  record.run.training["budget_ns"] = 90'000'000'000;
  record.run.training[kBeyondBudget] = Json::array({trial_beyond(2, "confirmation")});
  const std::string lines =
      "\ntuning   1 min 40 s\n         the budget was 1 min 30 s, and trial 2 (confirmation) ended "
      "after that\n";
  for (const std::string& text :
       {run_text(record.run, record.trials), summary_text(record.run, record.trials)}) {
    EXPECT_NE(text.find(lines), std::string::npos) << text;
  }
  const std::string cost = cost_text(record.run, record.trials);
  EXPECT_NE(cost.find("Tuning took 1 min 40 s.\nThe budget was 1 min 30 s, and "),
            std::string::npos)
      << cost;
}

// Each line fits into 80 columns, the last of which a terminal leaves free.
TEST(TuningTime, WhatIsOpenNamesTheMostPromisingProposal) {
  storage::RunRow run = run_with_budget_of(200);
  EXPECT_EQ(open_lines(run, {}), "");
  run.training["untried"] = untried_of(1, "amp");
  EXPECT_EQ(open_lines(run, {}),
            "open     1 proposal not tried in this run: amp\n"
            "         the next run goes on with it; --budget gives more time\n");
  run.training["untried"] = untried_of(12, "channels_last");
  const std::string text = open_lines(run, {});
  EXPECT_EQ(text,
            "open     12 proposals not tried in this run, most promising: channels_last\n"
            "         the next run goes on with them; --budget gives more time\n");
  EXPECT_EQ(text.find('\n'), std::size_t{74});
}

TEST(TuningTime, WhatIsOpenBeginsWithTheConfirmation) {
  storage::RunRow run = run_with_budget_of(200);
  run.training["untried"] = untried_of(2, "amp");
  TrialRecord confirmation = sample_trial(2, "autotuned", Verdict::rejected, {1.0, 0.9, 1.1, 5});
  confirmation.kind = TrialKind::confirmation;
  confirmation.rejection = RejectionReason::undecided_in_time;
  EXPECT_EQ(open_lines(run, {confirmation}),
            "open     the confirmation of optimizer.set_to_none off → on (trial 2) was not "
            "decided: the next run tries it again\n"
            "         2 proposals not tried in this run, most promising: amp\n"
            "         the next run goes on with them; --budget gives more time\n");
  EXPECT_NE(summary_text(run, {confirmation}).find(open_lines(run, {confirmation})),
            std::string::npos);
}

}  // namespace
}  // namespace autotuned::daemon
