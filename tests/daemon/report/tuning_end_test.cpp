// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/tuning_end.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <string>

#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunState;

// Two trials have accepted a change, and the script was stopped in the confirmation.
RunRecord interrupted_script() {
  RunRecord record = sample_record();
  storage::RunRow& run = record.run;
  run.recipe_name = "train.py";
  run.recipe = {{"kind", "script"}, {"name", "train.py"}, {"content", "c1"}};
  run.state = RunState::cancelled;
  run.best = {};
  run.speedup = {};
  run.best_samples_per_second = 0.0;
  run.tuning_duration_ns = 0;
  run.training = {{"untuned", "it ended before its tuning did; what was tried is on record"},
                  {kUntunedCause, "ended before its tuning did"},
                  {kUntunedByScript, true},
                  {"signal", 2}};
  record.trials[1].verdict = Verdict::interrupted;
  record.trials[1].estimate = {1.31, 0.0, 100.0, 3};
  return record;
}

RunRecord script_under_way() {
  RunRecord record = interrupted_script();
  record.run.training.erase("untuned");
  record.run.state = RunState::tuning;
  return record;
}

TEST(TuningEnd, SaysThatNothingWasConfirmedAndWhatWasFaster) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  const std::string usual = story_text(sample_record());
  tests::Cases cases;
  RunRecord record = interrupted_script();
  cases.add_difference("a script that was stopped in the confirmation", usual, story_text(record));
  cases.add("the same in one line", unconfirmed_text(record.run, record.trials));
  cases.add("the same, as show prints it", "\n" + run_text(record.run, record.trials));
  record.run.training["untuned"] =
      "the agent in the script let go: a tensor was not expected; what was tried is on record";
  record.run.training[kUntunedCause] = "the agent in the script let go: a tensor was not expected";
  record.run.training[kUntunedByScript] = false;
  cases.add("a reason that is not the script's", unconfirmed_text(record.run, {}));
  record = script_under_way();
  cases.add_difference("a tuning that has not ended", usual, story_text(record));
  record.run.is_interrupted = true;
  cases.add("its session has ended", unconfirmed_text(record.run, {}));
  record = sample_record();
  record.run.best = {};
  record.run.state = RunState::cancelled;
  cases.add_difference("a recipe, with which the same command goes on", usual, story_text(record));
  tests::expect_golden("daemon/report/golden/tuning_end.txt", cases.text());
}

TEST(TuningEnd, WhatIsUnderWayIsNotOver) {
  EXPECT_TRUE(is_unconfirmed(interrupted_script().run));
  RunRecord record = script_under_way();
  EXPECT_FALSE(is_unconfirmed(record.run));
  record.run.is_interrupted = true;
  EXPECT_TRUE(is_unconfirmed(record.run));
  EXPECT_FALSE(is_unconfirmed(sample_record().run)) << "it has a result";
}

TEST(TuningEnd, FindsTheNewestResultOfATextAndWhatIsNewer) {
  const storage::RunRow stopped = interrupted_script().run;
  storage::RunRow tuned = stopped;
  tuned.id.text = "r-tuned";
  tuned.state = RunState::finished;
  tuned.best = tuned.starting;
  storage::RunRow other = tuned;
  other.id.text = "r-other";
  other.recipe["content"] = "c2";

  std::vector<storage::RunRow> runs = {other, stopped, tuned, stopped};
  RunsOfScript found = find_runs_of_script(runs, "c1", "train.py");
  EXPECT_EQ(found.tuned, &runs[2]);
  EXPECT_EQ(found.unconfirmed, &runs[1]);
  found = find_runs_of_script(runs, "c3", "train.py");
  EXPECT_EQ(found.tuned, nullptr);
  EXPECT_EQ(found.unconfirmed, nullptr);
  EXPECT_EQ(found.of_other_text, &runs[0]);

  runs = {tuned, stopped};
  EXPECT_EQ(find_runs_of_script(runs, "c1", "train.py").unconfirmed, nullptr) << "it is older";
  runs = {stopped};
  runs[0].starting = {};
  EXPECT_EQ(find_runs_of_script(runs, "c1", "train.py").unconfirmed, nullptr) << "never tuned";
}

}  // namespace
}  // namespace autotuned::daemon
