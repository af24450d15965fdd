// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/page_data.hpp"

#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/web/stored_run.hpp"

namespace autotuned::daemon {
namespace {

class PageData : public testing::Test {
 protected:
  storage::History history_of(const RunRecord& record) {
    store(record, folder_ / "history.db");
    auto history = storage::History::open(folder_ / "history.db", storage::Access::read_only);
    EXPECT_TRUE(history) << history.error().message();
    return *std::move(history);
  }

  TemporaryFolder folder_;
};

TEST_F(PageData, ListsRunsWithTheirMachines) {
  const auto page = runs_page_json(history_of(sample_record()));
  ASSERT_TRUE(page) << page.error().message();
  ASSERT_EQ(page->at("runs").size(), 1U);
  const Json& run = page->at("runs")[0];
  EXPECT_EQ(run.at("run"), "r-20261121-7f3a9c");
  EXPECT_EQ(run.at("pairs"), 20);
  EXPECT_EQ(run.at("best").at("speedup"), 1.25);
  EXPECT_EQ(run.at("best").at("change"), "optimizer.set_to_none off → on");
  EXPECT_EQ(page->at("machines").at("e1").at("cpu_model"), "a CPU");
  EXPECT_EQ(page->at("has_more"), false);
}

TEST_F(PageData, TellsARunInLittle) {
  const auto page = run_page_json(history_of(sample_record()), "last");
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_EQ(page->at("pairs"), 20);
  EXPECT_EQ(page->at("left_out"), "");
  EXPECT_EQ(page->at("start").at("profile").at("shares")[0].at("what"), "waiting for data");
  ASSERT_EQ(page->at("trials").size(), 2U);
  const Json& trial = page->at("trials")[0];
  EXPECT_EQ(trial.at("outcome"), "kept");
  EXPECT_EQ(trial.at("change"),
            Json::array({{{"knob", "optimizer.set_to_none"}, {"from", "off"}, {"to", "on"}}}));
  for (const char* const left_out : {"reference", "verdict", "failure", "one_time_ns"})
    EXPECT_FALSE(trial.contains(left_out)) << left_out;
  // The second pair has no candidate.
  EXPECT_EQ(trial.at("pair_ratios"), Json::array({1250}));
  EXPECT_EQ(trial.at("checks")[0].at("detail"), "all are equal");
}

TEST_F(PageData, CutsLongSentences) {
  RunRecord record = sample_record();
  record.trials[0].reason = std::string(5000, 'x');
  record.trials[0].proposal_reason = std::string(5000, 'y');
  const auto page = run_page_json(history_of(record), "last");
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_LT(page->at("trials")[0].dump().size(), 1500U);
}

TEST_F(PageData, NamesTheRunsOfOneTraining) {
  EXPECT_EQ(run_page_json(history_of(sample_record()), "last")->at("lineage"), Json::array());
  const storage::History history = history_of(extending_record());
  for (const char* const run : {kExtendedRun, kExtendingRun}) {
    const auto page = run_page_json(history, run);
    ASSERT_TRUE(page) << page.error().message();
    const Json& lineage = page->at("lineage");
    ASSERT_EQ(lineage.size(), 2U) << run;
    EXPECT_EQ(lineage[0].at("run"), kExtendedRun);
    EXPECT_EQ(lineage[1].at("run"), kExtendingRun);
    EXPECT_EQ(lineage[1].at("length"), "20 epochs");
    EXPECT_EQ(lineage[1].at("state"), "cancelled");
  }
}

TEST_F(PageData, FindingsHaveTheirRemedies) {
  RunRecord record = sample_record();
  record.profiles[0]["findings"].push_back(sample_finding_with_remedy());
  const auto page = run_page_json(history_of(record), "last");
  ASSERT_TRUE(page) << page.error().message();
  const Json& finding = page->at("start").at("profile").at("findings").at(0);
  EXPECT_EQ(finding.at("gain"), sample_finding_with_remedy().at("gain"));
  EXPECT_EQ(finding.at("code"), sample_finding_with_remedy().at("code"));
}

TEST_F(PageData, SaysThatTheTrainingLeftOutWhatWasMeasured) {
  RunRecord record = sample_record();
  leave_out_extension(record);
  const storage::History history = history_of(record);
  const std::string told = "measured with plugin mine, which the training left out";
  EXPECT_EQ(run_page_json(history, "last")->at("left_out"), told);
  EXPECT_EQ(runs_page_json(history)->at("runs").at(0).at("left_out"), told);
  const auto compared = comparison_page_json(history, "last", "last.1");
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_EQ(compared->at("a").at("left_out"), told);
  EXPECT_EQ(compared->at("b").at("left_out"), "") << "a trial is what it measured";
}

TEST_F(PageData, SaysWhatItDoesNotFind) {
  const storage::History history = history_of(sample_record());
  EXPECT_EQ(run_page_json(history, "r-1999").error().kind, ErrorKind::not_found);
  EXPECT_EQ(comparison_page_json(history, "last", "r-1999").error().kind, ErrorKind::not_found);
}

TEST_F(PageData, ComparesTwo) {
  const auto page = comparison_page_json(history_of(sample_record()), "last", "last.1");
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_EQ(page->at("b").at("name"), "r-20261121-7f3a9c.1");
  EXPECT_TRUE(page->contains("ratio"));
}

}  // namespace
}  // namespace autotuned::daemon
