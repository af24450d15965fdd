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
