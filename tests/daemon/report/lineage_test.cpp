// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/lineage.hpp"

#include <gmock/gmock.h>

#include "daemon/report/job_trend.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/story.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunRow;
using storage::RunState;
using testing::ElementsAre;
using testing::IsEmpty;

class Lineage : public testing::Test {
 protected:
  RunRow put(const std::string& id, int epochs, const std::string& extends,
             RunState state = RunState::finished) {
    RunRow run = small_;
    run.id = {id};
    run.state = state;
    run.plan = Json{{"epochs", epochs}, {"seed", 1}}.dump();
    if (!extends.empty())
      run.plan = Json{{"epochs", epochs}, {"seed", 1}, {"extends", extends}}.dump();
    run.best.set("batch_size", std::int64_t{8});
    run.best_samples_per_second = 100.0;
    run.baseline_samples_per_second = 100.0;
    if (state == RunState::finished) run.training = {{"steps", 1000 * epochs}};
    EXPECT_TRUE(history_.put_run(run));
    return run;
  }

  [[nodiscard]] std::vector<std::string> lineage(const RunRow& run) const {
    std::vector<std::string> ids;
    const auto parts = lineage_of(history_, run).value();
    for (const RunRow& part : parts)
      ids.push_back(part.id.text);
    return ids;
  }

  TemporaryFolder folder_;
  storage::History history_ =
      storage::History::open(folder_ / "history.db", storage::Access::read_write).value();
  const RunRow small_ = put_small_run(history_);
};

TEST_F(Lineage, IsTheSameFromEachOfItsRuns) {
  const RunRow first = put("r-1", 10, "");
  put("r-2", 20, "r-1", RunState::failed);
  const RunRow second = put("r-3", 20, "r-1");
  const RunRow third = put("r-4", 30, "r-3", RunState::cancelled);
  for (const RunRow& run : {first, second, third})
    EXPECT_THAT(lineage(run), ElementsAre("r-1", "r-3", "r-4"));
  EXPECT_THAT(lineage(put("r-5", 10, "")), ElementsAre("r-5"));
  EXPECT_EQ(extended_run(third), "r-3");
  EXPECT_THAT(extended_run(small_), IsEmpty()) << "of a version that had no plans";
  tests::expect_golden("daemon/report/golden/lineage.txt",
                       lineage_text(lineage_of(history_, second).value()));
  EXPECT_THAT(lineage_text({first}), IsEmpty());
  const Json parts = lineage_json(lineage_of(history_, second).value());
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0], Json({{"run", "r-1"},
                            {"length", "10 epochs"},
                            {"steps", 10'000},
                            {"state", "finished"},
                            {"is_interrupted", false}}));
  EXPECT_EQ(parts[2].at("steps"), nullptr);
  EXPECT_THAT(lineage_json({first}), IsEmpty());
}

// By evaluate.patience; a larger one lets the next run go on.
TEST_F(Lineage, ATrainingThatEndedEarlyDidNotReachItsLength) {
  RunRow first = put("r-1", 30, "");
  first.training = {{"steps", 98}, {"epochs", 7}};
  RunRow second = put("r-2", 30, "r-1");
  second.training = {{"steps", 420}, {"epochs", 30}};
  const Json parts = lineage_json({first, second});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].at("length"), "7 of 30 epochs");
  EXPECT_EQ(parts[1].at("length"), "30 epochs");
  EXPECT_THAT(lineage_text({first, second}),
              testing::HasSubstr("part 1    r-1  7 of 30 epochs  98     finished\n"));
}

TEST_F(Lineage, BeginsBehindARunThatIsGone) {
  const RunRow orphan = put("r-9", 20, "r-gone");
  EXPECT_THAT(lineage(orphan), ElementsAre("r-9"));
  EXPECT_TRUE(runs_before(history_, orphan).value().empty());
  EXPECT_THAT(ids_before({}, orphan), ElementsAre("r-gone"));
  EXPECT_THAT(ids_before({orphan}, put("r-8", 30, "r-9")), ElementsAre("r-gone", "r-9"));
  EXPECT_THAT(ids_before({}, put("r-7", 30, "")), IsEmpty());
  // Two that name each other are the work of an editor.
  put("r-10", 20, "r-11");
  EXPECT_THAT(lineage(put("r-11", 20, "r-10")), ElementsAre("r-10", "r-11"));
}

TEST_F(Lineage, IsToldWithARun) {
  const RunRow first = put("r-1", 10, "");
  const RunRow second = put("r-2", 20, "r-1");
  EXPECT_NE(run_text(second, {}).find("extends  run r-1 and uses its configuration\n"),
            std::string::npos);
  EXPECT_EQ(run_summary_json(second).at("extends"), "r-1");
  // The tuning was not its own.
  RunRow tuned = second;
  tuned.speedup = {.ratio = 1.5, .low = 1.4, .high = 1.6, .pairs = 20};
  tuned.best_samples_per_second = 150.0;
  tuned.tuning_duration_ns = 60'000'000'000;
  const std::string card = summary_text(tuned, {});
  EXPECT_THAT(card, testing::HasSubstr("\ntuning   not in this run; in the one that began its "
                                       "training: 1.50 x (1.40 to 1.60), 150 samples/s instead of "
                                       "100 samples/s\n"));
  for (const char* const of_tuning : {"start    ", "best     ", "faster   ", "ceiling  ", "1 min"})
    EXPECT_THAT(card, testing::Not(testing::HasSubstr(of_tuning)));
  EXPECT_THAT(cost_text(tuned, {}),
              testing::HasSubstr("Tuning took 1 min 00 s, in the run that began this training.\n"));
  EXPECT_EQ(run_summary_json(first).at("extends"), Json());
  // Its rates are those of the first, so it is no other measurement.
  EXPECT_THAT(job_trends(history_, history_.runs({}).value()).value(), IsEmpty());
}

// Only the extended run knows whether its budget was too small or nothing faster was found.
TEST_F(Lineage, AnExtensionSaysNothingOfASearchThatWasNotItsOwn) {
  RunRecord record;
  record.run = put("r-2", 20, "r-1");
  record.run.starting = record.run.best;
  record.run.tuning_duration_ns = 10'000'000'000;
  record.run.training = Json::object();
  std::string story = story_text(record);
  EXPECT_THAT(story, testing::HasSubstr("  The starting configuration.\n"));
  EXPECT_THAT(story, testing::HasSubstr(", in the run that began this training.\n"));
  for (const char* const claim : {"othing faster", "does not repay", "the next run of this job"})
    EXPECT_THAT(story, testing::Not(testing::HasSubstr(claim)));
  // The extended run could not even measure its start.
  record.run.baseline_samples_per_second = 0.0;
  record.run.best_samples_per_second = 0.0;
  story = story_text(record);
  EXPECT_THAT(story, testing::HasSubstr("  The starting configuration.\n"));
  EXPECT_THAT(story, testing::HasSubstr("a run that extends a training does not tune.\n"));
  EXPECT_THAT(story, testing::Not(testing::HasSubstr("budget of 0")));
  EXPECT_THAT(story, testing::Not(testing::HasSubstr("budget was")));
  // It trained with smaller batches than its tuning had kept.
  record.run.best.set("batch_size", std::int64_t{4});
  story = story_text(record);
  EXPECT_THAT(story, testing::HasSubstr("batch_size 8 → 4.\n"));
  EXPECT_THAT(story, testing::Not(testing::HasSubstr("  The starting configuration.\n")));
}

// A trace beside a run that took none is that of another run.
TEST_F(Lineage, ARunWithoutAProfileNamesTheOneThatTookIt) {
  const RunRow first = put("r-1", 10, "");
  const RunRow second = put("r-2", 20, "");
  const auto told = [this](const RunRow& run) {
    RunRecord record = read_run(history_, run, {}).value();
    EXPECT_TRUE(find_profiling_run(history_, record));
    return story_text(record);
  };
  EXPECT_THAT(told(second), testing::HasSubstr("There is no profile of its time.\n"));
  ASSERT_TRUE(history_.put_profile(first.id, first.starting, Json::object(), Json::array(),
                                   Json::array(), 1));
  EXPECT_THAT(told(second),
              testing::HasSubstr("This run took no profile of its time. Run r-1 of this job did: "
                                 "`autotuned explain r-1`; a trace of the start in the folder is "
                                 "of that run.\n"));
  EXPECT_THAT(told(first), testing::Not(testing::HasSubstr("Run r-1 of this job did")));
  // Those who show no story do not look through the runs of the job.
  EXPECT_EQ(read_run(history_, second, {}).value().profiled_by, "");
}

}  // namespace
}  // namespace autotuned::daemon
