// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/lineage.hpp"

#include <gmock/gmock.h>

#include "daemon/report/job_trend.hpp"
#include "daemon/report/report.hpp"
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
  EXPECT_EQ(run_summary_json(first).at("extends"), Json());
  // Its rates are those of the first, so it is no other measurement.
  EXPECT_THAT(job_trends(history_, history_.runs({}).value()).value(), IsEmpty());
}

}  // namespace
}  // namespace autotuned::daemon
