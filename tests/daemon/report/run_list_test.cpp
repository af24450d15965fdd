// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_list.hpp"

#include <gmock/gmock.h>
#include <time.h>

#include <vector>

#include "daemon/report/training_fallback.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

class RunList : public testing::Test {
 protected:
  void SetUp() override {
    ::tzset();
    runs_ = {sample_record().run, sample_record().run};
    runs_[0].recipe_name = "resnet18-cifar-cpu";
    runs_[1].id = {"r-20261120-00e1f2"};
    runs_[1].state = storage::RunState::cancelled;
    runs_[1].best = {};
    runs_[1].best_samples_per_second = 0.0;
  }

  const EnvironmentVariable zone_{"TZ", "UTC"};
  std::vector<storage::RunRow> runs_;
};

TEST_F(RunList, HasEverythingWhereNoTerminalIs) {
  EXPECT_EQ(run_list_text(runs_, 0),
            "run                started              recipe              state      start "
            "samples/s  best samples/s  faster\n"
            "r-20261121-7f3a9c  1970-01-01 00:00:00  resnet18-cifar-cpu  finished   1,000"
            "            1,250           1.25 x (1.20 to 1.50)\n"
            "r-20261120-00e1f2  1970-01-01 00:00:00  small               cancelled  1,000"
            "            -               -\n");
  EXPECT_EQ(run_list_text(runs_, 200), run_list_text(runs_, 0));
}

TEST_F(RunList, FitsIntoATerminal) {
  EXPECT_EQ(run_list_text(runs_, 100),
            "run                started     recipe              state      best samples/s  faster\n"
            "r-20261121-7f3a9c  1970-01-01  resnet18-cifar-cpu  finished   1,250           "
            "1.25 x (1.20 to 1.50)\n"
            "r-20261120-00e1f2  1970-01-01  small               cancelled  -               -\n");
  EXPECT_EQ(run_list_text(runs_, 80),
            "run                started     recipe           state      faster\n"
            "r-20261121-7f3a9c  1970-01-01  resnet18-cifar…  finished   1.25 x (1.20 to 1.50)\n"
            "r-20261120-00e1f2  1970-01-01  small            cancelled  -\n");
}

TEST_F(RunList, TellsAnUndecidedConfirmationFromNone) {
  runs_[0].speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  EXPECT_THAT(run_list_text(runs_, 0), testing::HasSubstr("not measured\n"));
  EXPECT_THAT(run_list_text(runs_, 0, {runs_[0].id.text}), testing::HasSubstr("not confirmed\n"));
}

TEST_F(RunList, HasNoBestRateWhereNothingWasMeasured) {
  runs_.resize(1);
  runs_[0].best = runs_[0].starting;
  runs_[0].best_samples_per_second = runs_[0].baseline_samples_per_second;
  runs_[0].speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  EXPECT_THAT(run_list_text(runs_, 0),
              testing::EndsWith("finished  1,000            -               not measured\n"));
}

TEST_F(RunList, SaysBelowWhatMustBeSaid) {
  runs_[1] = extending_record().run;
  EXPECT_THAT(run_list_text(runs_, 80),
              testing::EndsWith("\nr-20261122-00e1f2: goes on with the training of run "
                                "r-20261121-7f3a9c\n"));
}

TEST_F(RunList, SaysWhichRatioIsThatOfAnExtensionThatWasLeftOut) {
  Error error{.kind = ErrorKind::internal, .what = "it leaves other labels"};
  error.extensions = {"mine"};
  add_fallback(runs_[0].starting, error, 7, runs_[0], 5);
  EXPECT_THAT(
      run_list_text(runs_, 0),
      testing::AllOf(testing::HasSubstr("  1.25 x (1.20 to 1.50) *\n"),
                     testing::EndsWith("\nr-20261121-7f3a9c: its ratio (*) was measured with "
                                       "plugin mine, which the training left out\n")));
}

}  // namespace
}  // namespace autotuned::daemon
