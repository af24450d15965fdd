// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/training_course.hpp"

#include <gmock/gmock.h>

#include "daemon/report/report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/training_fallback.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;
using testing::Not;

RunRecord stopped_record() {
  RunRecord record = sample_record();
  record.run.state = storage::RunState::cancelled;
  record.run.training = {{kStoppedAt, stop_of({{"steps", 600}, {"epochs", 3}, {"cancelled", true}},
                                              {{"step", 598}, {"steps_total", 1200}})}};
  return record;
}

TEST(StoppedTraining, IsToldWithItsStep) {
  const RunRecord record = stopped_record();
  EXPECT_EQ(record.run.training.at(kStoppedAt),
            Json::object(
                {{"steps", 600}, {"steps_total", 1200}, {"epochs", 3}, {"epochs_total", nullptr}}));
  EXPECT_EQ(stopped_text(record.run), "at step 600 of 1,200");
  EXPECT_THAT(summary_text(record.run, record.trials),
              HasSubstr("\nstopped  at step 600 of 1,200\n"));
  EXPECT_THAT(story_text(record), HasSubstr("\nIts training was stopped at step 600 of 1,200.\n"));
}

TEST(StoppedTraining, HasNoTotalBeforeTheFirstProgress) {
  RunRecord record = stopped_record();
  record.run.training[kStoppedAt] = stop_of({{"steps", 600}}, Json());
  EXPECT_EQ(stopped_text(record.run), "at step 600");
}

// It goes on, or another process was killed in it since.
TEST(StoppedTraining, IsOneOfACancelledRunOnly) {
  RunRecord record = stopped_record();
  for (const storage::RunState state :
       {storage::RunState::training, storage::RunState::finished, storage::RunState::failed}) {
    record.run.state = state;
    EXPECT_EQ(stopped_text(record.run), "");
    EXPECT_THAT(summary_text(record.run, record.trials), Not(HasSubstr("stopped")));
  }
  EXPECT_EQ(stopped_text(sample_record().run), "");
}

TEST(FailedTraining, IsToldWithTheStepThatWasToldLast) {
  RunRecord record = stopped_record();
  record.run.state = storage::RunState::training;
  record.run.error = "no memory left";
  record.run.training[kStoppedAt] = failure_of({{"step", 598}, {"steps_total", 1200}});
  EXPECT_EQ(stopped_text(record.run), "after step 598 of 1,200");
  EXPECT_THAT(story_text(record),
              HasSubstr("\nIt ended with an error: no memory left.\nIts training was stopped after "
                        "step 598 of 1,200.\n"));
  record.run.error.clear();  // it goes on
  EXPECT_EQ(stopped_text(record.run), "");
  EXPECT_TRUE(failure_of(Json()).is_null());
}

// The sample was measured at 1,250 samples/s, with a speed-up of at least 1.2 over 1,000 samples/s.
storage::RunRow trained_at(double samples_per_second, double seconds = 100.0) {
  storage::RunRow run = sample_record().run;
  run.training = {
      {"steps", 10}, {"samples", samples_per_second * seconds}, {"duration_ns", seconds * 1e9}};
  return run;
}

TEST(SlowTraining, IsOneFarBelowWhatWasMeasured) {
  EXPECT_FALSE(has_trained_slowly(trained_at(1250)));
  EXPECT_FALSE(has_trained_slowly(trained_at(880)));
  EXPECT_TRUE(has_trained_slowly(trained_at(870)));
  EXPECT_FALSE(has_trained_slowly(trained_at(870, 9.0))) << "mostly its first steps";
  // No more was promised.
  storage::RunRow wide = trained_at(870);
  wide.speedup.low = 0.8;
  EXPECT_FALSE(has_trained_slowly(wide));
  wide.speedup.low = 0.0;  // too few pairs for a lower end
  EXPECT_TRUE(has_trained_slowly(wide));
}

TEST(SlowTraining, IsWarnedOfWithTheChangesThatWereKept) {
  EXPECT_EQ(slow_training_warning(trained_at(500), {}),
            "the training reached 500 samples/s, 40 % of the 1,250 samples/s that tuning measured "
            "with optimizer.set_to_none off → on: a change may be slower in a long training than "
            "in its trials; --retune measures again");
  EXPECT_THAT(
      slow_training_warning(trained_at(500), {"mine"}),
      testing::EndsWith("; --retune measures again, --without mine leaves plugin mine out"));
  EXPECT_THAT(slow_training_lines(trained_at(500)), testing::StartsWith("slow     40 % of what"));
  EXPECT_EQ(slow_training_warning(trained_at(1250), {}), "");
}

TEST(SlowTraining, IsNotBlamedOnChangesThatAreNotToBlame) {
  storage::RunRow busy = trained_at(500);
  busy.training["other_work_ratio"] = 0.43;
  busy.training["tuning_other_work_ratio"] = 0.03;
  EXPECT_EQ(slow_training_warning(busy, {}), "");
  storage::RunRow start = trained_at(500);
  start.best = start.starting;
  EXPECT_EQ(slow_training_warning(start, {}), "");
  storage::RunRow other = trained_at(500);
  add_fallback(other.starting, {ErrorKind::out_of_memory, "full", "", ""}, 7, other);
  EXPECT_EQ(slow_training_warning(other, {}), "");
}

}  // namespace
}  // namespace autotuned::daemon
