// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/tuning_end.hpp"

#include <gmock/gmock.h>

#include <string>

#include "daemon/report/report.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunState;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

TEST(TuningEnd, SaysThatNothingWasConfirmedAndWhatWasFaster) {
  const RunRecord record = interrupted_script();
  EXPECT_TRUE(is_unconfirmed(record.run));
  const std::string why =
      "train.py ended before its tuning did; not confirmed: optimizer.set_to_none off → on, "
      "1.25 x (1.20 to 1.50)";
  EXPECT_EQ(unconfirmed_text(record.run, record.trials), why);
  EXPECT_THAT(run_text(record.run, record.trials), HasSubstr("kept     nothing: " + why + "\n"));
  const std::string story = story_text(record);
  EXPECT_THAT(story, AllOf(HasSubstr("What was kept\n  Nothing: " + why + ".\n"),
                           HasSubstr("Faster, and not confirmed: +25.0 %"),
                           HasSubstr("Interrupted before it was decided: +31.0 %"),
                           HasSubstr("What the tuning cost is not known: it did not come")));
  EXPECT_THAT(story, AllOf(Not(HasSubstr("yet")), Not(HasSubstr("Kept:"))));
}

TEST(TuningEnd, AReasonThatIsNotTheScriptsIsNotSaidOfIt) {
  RunRecord record = interrupted_script();
  record.run.training["untuned"] =
      "the agent in the script let go: a tensor was not expected; what was tried is on record";
  record.run.training[kUntunedCause] = "the agent in the script let go: a tensor was not expected";
  record.run.training[kUntunedByScript] = false;
  EXPECT_EQ(unconfirmed_text(record.run, {}),
            "the agent in the script let go: a tensor was not expected");
}

TEST(TuningEnd, WhatIsUnderWayIsNotOver) {
  RunRecord record = interrupted_script();
  record.run.training.erase("untuned");
  record.run.state = RunState::tuning;
  EXPECT_FALSE(is_unconfirmed(record.run));
  EXPECT_THAT(story_text(record), HasSubstr("Nothing yet: the tuning has not ended."));
  record.run.is_interrupted = true;
  EXPECT_TRUE(is_unconfirmed(record.run));
  EXPECT_THAT(unconfirmed_text(record.run, {}), HasSubstr("session of the run ended"));
  EXPECT_FALSE(is_unconfirmed(sample_record().run)) << "it has a result";
}

TEST(TuningEnd, ARecipeIsGoneOnWith) {
  RunRecord record = sample_record();
  record.run.best = {};
  record.run.state = RunState::cancelled;
  EXPECT_THAT(story_text(record), HasSubstr("the same command goes on with it"));
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
