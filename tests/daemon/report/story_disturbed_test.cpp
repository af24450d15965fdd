// SPDX-License-Identifier: Apache-2.0
// What is told of a trial that was disturbed.
#include <gmock/gmock.h>

#include <string>

#include "daemon/report/story.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

constexpr const char* kReason = "undecided, because it was disturbed: a priority was changed";

TrialRecord disturbed(int number, TrialKind kind) {
  TrialRecord trial = sample_trial(number, "a", Verdict::rejected, {});
  trial.kind = kind;
  trial.rejection = RejectionReason::undecided_in_time;
  trial.failure = ErrorKind::unsupported;
  trial.reason = kReason;
  return trial;
}

TEST(DisturbedStory, NamesWhatWasChanged) {
  RunRecord record;
  record.trials = {disturbed(1, TrialKind::proposal)};
  EXPECT_THAT(story_text(record), HasSubstr(std::string("Rejected: ") + kReason + "."));
  record.trials = {disturbed(1, TrialKind::verification)};
  EXPECT_THAT(story_text(record),
              HasSubstr(std::string("It was not decided: ") + kReason +
                        ". It stays stored, and the next run verifies it again."));
}

// The search counts as incomplete then.
TEST(DisturbedStory, DoesNotSayThatTheNextRunKnowsWhatWasNotDecided) {
  RunRecord record = sample_record();
  record.run.best = record.run.starting;
  record.run.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  record.trials = {disturbed(1, TrialKind::proposal)};
  const std::string open =
      "Nothing faster was found; the next run of this job here may go on with what was not "
      "decided.\n";
  const std::string known = "so it does not repay itself; the next run of this job here knows that";
  EXPECT_THAT(cost_text(record.run, record.trials), HasSubstr(open));
  record.trials.push_back(disturbed(2, TrialKind::proposal));
  EXPECT_THAT(cost_text(record.run, record.trials), HasSubstr(open));
  // A later trial has decided.
  record.trials.back().rejection = RejectionReason::slower;
  record.trials.back().failure.reset();
  EXPECT_THAT(cost_text(record.run, record.trials), HasSubstr(known));
}

TEST(DisturbedStory, OfAConfirmationDropsTheLastChangeUntilTheNextRun) {
  RunRecord record;
  record.trials = {sample_trial(1, "a", Verdict::accepted, {1.25, 1.2, 1.5, 20}),
                   disturbed(2, TrialKind::confirmation)};
  const auto outcomes = outcomes_of(record);
  EXPECT_EQ(outcomes.at(1), Outcome::dropped);
  EXPECT_EQ(outcomes.at(2), Outcome::undecided);
  EXPECT_THAT(story_text(record), HasSubstr("The next run tries it again."));
}

}  // namespace
}  // namespace autotuned::daemon
