// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/rank_report.hpp"

#include <gtest/gtest.h>

#include "daemon/report/report.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

RunRecord record_of_two_ranks() {
  RunRecord record = sample_record();
  record.run.recipe["train"]["ranks"] = 2;
  record.run.starting.set("batch_size", std::int64_t{8});
  record.run.best.set("batch_size", std::int64_t{32});
  record.profiles = {sample_profile(record.run.starting, 0.41),
                     sample_profile(record.run.best, 0.1)};
  record.profiles[0]["metrics"]["ranks.behind_ratio"] = 0.124;
  record.profiles[0]["metrics"]["ranks.slowest"] = 1.0;
  record.profiles[1]["metrics"]["ranks.behind_ratio"] = 0.04;
  record.profiles[1]["metrics"]["ranks.slowest"] = 1.0;
  return record;
}

TEST(RankReport, TellsTheGlobalBatch) {
  EXPECT_EQ(ranks_text(2, 32), "2 ranks of 32, 64 samples a step");
  EXPECT_EQ(ranks_text(64, 512), "64 ranks of 512, 32,768 samples a step");
  EXPECT_EQ(ranks_text(1, 32), "");
  const Json recipe = {{"train", {{"batch_size", 8}, {"ranks", 3}}}};
  EXPECT_EQ(ranks_text(recipe, Configuration()), "3 ranks of 8, 24 samples a step");
  Configuration larger;
  larger.set("batch_size", std::int64_t{16});
  EXPECT_EQ(ranks_text(recipe, larger), "3 ranks of 16, 48 samples a step");
  EXPECT_EQ(ranks_text({{"train", {{"batch_size", 8}}}}, larger), "");
  EXPECT_EQ(ranks_text(Json(), Configuration()), "");
  EXPECT_EQ(told_ranks({{"ranks", 2}, {"batch_size", 32}}), ", 2 ranks of 32, 64 samples a step");
  EXPECT_EQ(told_ranks({{"run", "r-1"}}), "");
}

TEST(RankReport, NamesARankThatHoldsUpTheOthers) {
  EXPECT_EQ(slow_rank_text({{"ranks.behind_ratio", 0.05}, {"ranks.slowest", 0.0}}), "");
  EXPECT_EQ(slow_rank_text({{"ranks.behind_ratio", 0.2}, {"ranks.slowest", 0.0}}).substr(0, 62),
            "Rank 0 is the slowest: the others wait 20 % of the step for it");
  EXPECT_EQ(slow_rank_text({{"ranks.behind_ratio", 0.2}}), "");
  EXPECT_EQ(slow_rank_text({{"ranks.behind_ratio", 1e30}, {"ranks.slowest", 1.0}}), "");
  EXPECT_EQ(slow_rank_text(Json()), "");
}

TEST(RankReport, ExplainTellsOfRanks) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  tests::expect_golden("daemon/report/golden/story_ranks.txt", story_text(record_of_two_ranks()));
}

TEST(RankReport, ShowTellsOfRanks) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  const RunRecord record = record_of_two_ranks();
  tests::expect_golden("daemon/report/golden/run_ranks.txt", run_text(record.run, record.trials));
}

}  // namespace
}  // namespace autotuned::daemon
