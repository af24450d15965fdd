// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/run_row.hpp"

#include <gmock/gmock.h>

#include <chrono>

#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_time.hpp"

namespace autotuned::daemon {
namespace {

TrialRecord numbered(int number, TrialKind kind) {
  TrialRecord trial;
  trial.number = number;
  trial.kind = kind;
  trial.plugin = "amp";
  return trial;
}

TEST(RunRow, TheEndOfASearchNamesTrialsThatEndedAfterTheBudget) {
  tuner::SessionOutcome outcome;
  outcome.trials = {numbered(1, TrialKind::proposal), numbered(2, TrialKind::proposal),
                    numbered(3, TrialKind::confirmation)};
  const std::chrono::seconds budget(90);
  EXPECT_EQ(end_of_search(outcome, budget, /*is_continued=*/false).at(kBeyondBudget),
            Json::array());
  EXPECT_TRUE(end_of_search(outcome, budget, /*is_continued=*/true).at(kBeyondBudget).is_null())
      << "trials of an earlier process may have";
  outcome.trials_beyond_budget = {2, 3};
  for (const bool is_continued : {false, true}) {
    EXPECT_EQ(end_of_search(outcome, budget, is_continued).at(kBeyondBudget),
              Json::array(
                  {Json{{"trial", 2}, {"by", "amp"}}, Json{{"trial", 3}, {"by", "confirmation"}}}));
  }
}

// Nobody is sent to repeat a command that ends in the same way.
TEST(RunRow, AnErrorOfTheJobItselfRecursAndOneOfItsSurroundingsMayNot) {
  const auto recurs = [](ErrorKind kind) { return would_recur({.kind = kind, .what = "no"}); };
  for (const ErrorKind kind :
       {ErrorKind::invalid, ErrorKind::corrupt, ErrorKind::newer_version, ErrorKind::unsupported}) {
    EXPECT_TRUE(recurs(kind)) << to_string(kind);
  }
  for (const ErrorKind kind : {ErrorKind::not_found, ErrorKind::io, ErrorKind::disk_full,
                               ErrorKind::permission, ErrorKind::busy, ErrorKind::out_of_memory,
                               ErrorKind::timeout, ErrorKind::crashed, ErrorKind::internal}) {
    EXPECT_FALSE(recurs(kind)) << to_string(kind);
  }
  EXPECT_FALSE(
      would_recur({.kind = ErrorKind::unsupported, .what = "stopped", .is_disturbance = true}))
      << "somebody has stopped a trainer meanwhile";
  EXPECT_TRUE(
      would_recur({.kind = ErrorKind::internal, .what = "it freezes", .extensions = {"mine"}}))
      << "where it can, a training goes on without the extension";
}

TEST(RunRow, ADefectThatComesTwiceInTheSameWordsRecurs) {
  const Error odd{ErrorKind::internal, "boo in backward", "training step", ""};
  EXPECT_TRUE(has_recurred(odd, "training step: boo in backward"));
  EXPECT_FALSE(has_recurred(odd, ""));
  EXPECT_FALSE(has_recurred(odd, "training step: boo in forward"));
  const Error full{ErrorKind::disk_full, "no space left", "out", ""};
  EXPECT_FALSE(has_recurred(full, full.message())) << "somebody may make room";
}

// What best.yaml has then is what the training went on with.
TEST(RunRow, TheCommentDoesNotPromiseTheRatioOfAnExtensionThatWasLeftOut) {
  storage::RunRow run;
  run.id = {"r-20261121-7f3a9c"};
  run.starting.set("mine.skip", false);
  run.best.set("mine.skip", true);
  run.speedup = {.ratio = 3.0, .low = 2.9, .high = 3.1, .pairs = 20};
  EXPECT_THAT(best_comment(run), testing::HasSubstr(": 3.00 x (2.90 to 3.10) the speed of the "
                                                    "starting one.\n"));
  add_fallback(run.starting,
               {.kind = ErrorKind::internal, .what = "it lies", .extensions = {"mine"}}, 7, run, 5);
  const std::string comment = best_comment(run);
  EXPECT_THAT(comment, testing::HasSubstr(": 3.00 x (2.90 to 3.10) was measured with plugin mine, "
                                          "which the training left out.\nWarning: the training "
                                          "went on from step 5 without plugin mine"));
  EXPECT_THAT(comment, testing::Not(testing::HasSubstr("the speed of the starting one")));
}

}  // namespace
}  // namespace autotuned::daemon
