// SPDX-License-Identifier: Apache-2.0
#include "daemon/logs/log_points.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "tuner/comparison.hpp"

namespace autotuned::daemon {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

std::vector<Json> log_of_two_lines() {
  return {{{"run", "r-1"}, {"unix_ns", 1'500'000'000}, {"step", 100}, {"epoch", 1}, {"loss", 0.5}},
          {{"run", "r-1"}, {"unix_ns", 2'000'000'000}, {"step", 120}, {"test_accuracy", 0.75}}};
}

TrialRecord trial(Verdict verdict, const Estimate& estimate) {
  TrialRecord record;
  record.number = 3;
  record.plugin = "set_to_none";
  record.verdict = verdict;
  record.estimate = estimate;
  record.candidate_samples_per_second = 1300;
  record.started_unix_ns = 4'000'000'000;
  record.duration_ns = 1'000'000'000;
  return record;
}

TEST(LogPoints, NameWhatWasToldOfATraining) {
  const auto points = training_points(log_of_two_lines());
  EXPECT_THAT(points, Contains(LogPoint{"train/loss", 100, 1'500'000'000, 0.5}));
  EXPECT_THAT(points, Contains(LogPoint{"train/epoch", 100, 1'500'000'000, 1}));
  EXPECT_THAT(points, Contains(LogPoint{"test/accuracy", 120, 2'000'000'000, 0.75}));
  EXPECT_EQ(points.size(), 3U);
}

TEST(LogPoints, HaveTrialsThatWereMeasured) {
  const auto points =
      trial_points({trial(Verdict::accepted, {.ratio = 1.3, .low = 1.2, .high = 1.4, .pairs = 9}),
                    trial(Verdict::failed, {}),
                    trial(Verdict::rejected,
                          {.ratio = 1.0, .low = 0.0, .high = tuner::kNoUpperEnd, .pairs = 2})});
  EXPECT_THAT(points, Contains(LogPoint{"trials/ratio", 3, 5'000'000'000, 1.3}));
  EXPECT_THAT(points, Contains(LogPoint{"trials/ratio_high", 3, 5'000'000'000, 1.4}));
  EXPECT_THAT(points, Contains(LogPoint{"trials/accepted", 3, 5'000'000'000, 0}));
  EXPECT_THAT(points, Not(Contains(Field(&LogPoint::value, tuner::kNoUpperEnd))));
  EXPECT_EQ(points.size(), 6U + 4U);
}

TEST(LogPoints, AreATableAndLines) {
  const auto log = log_of_two_lines();
  EXPECT_THAT(csv_of("r-1", training_points(log)),
              testing::StartsWith("run,name,step,unix_seconds,value\n"));
  EXPECT_THAT(csv_of("r-1", training_points(log)), HasSubstr("\nr-1,train/loss,100,1.500,0.5\n"));
  const std::string lines =
      jsonl_of("r-1", log, {trial(Verdict::accepted, {.ratio = 1.3, .pairs = 9})});
  EXPECT_EQ(std::ranges::count(lines, '\n'), 3);
  EXPECT_THAT(lines, HasSubstr("\"id\":\"r-1.3\""));
}

}  // namespace
}  // namespace autotuned::daemon
