// SPDX-License-Identifier: Apache-2.0
// The script of the page: what it shows is what the history holds.
#include <gtest/gtest.h>

#include <string>

#include "daemon/web/page_data.hpp"
#include "daemon/web/page_markup.hpp"
#include "tests/daemon/page_script.hpp"
#include "tests/daemon/web/stored_run.hpp"

namespace autotuned::daemon {
namespace {

class WebPageScript : public PageScriptTest {
 protected:
  // The page of this run must be as the scene of page/check.js says.
  void expect_scene(const std::string& scene, const RunRecord& record,
                    const std::string& more = "") const {
    store(record, folder_ / "history.db");
    const auto history = storage::History::open(folder_ / "history.db", storage::Access::read_only);
    ASSERT_TRUE(history) << history.error().message();
    const auto run = run_page_json(*history, "last");
    ASSERT_TRUE(run) << run.error().message();
    const auto text = run_page_text(*history, "last");
    ASSERT_TRUE(text) << text.error().message();
    expect_scene_of("web/page/check.js", scene,
                    folder_.write("page.html", page_of_run(*run, *text)), more);
  }
};

TEST_F(WebPageScript, TellsTheStoryOfARun) {
  expect_scene("story", sample_record());
}

TEST_F(WebPageScript, NamesTheRunsOfOneTraining) {
  store(sample_record(), folder_ / "history.db");
  expect_scene("extended", extending_record());
}

TEST_F(WebPageScript, SaysThatTheUpperBoundIsReached) {
  RunRecord record = sample_record();
  record.run.ceiling_samples_per_second = 1254;
  expect_scene("reached", record);
}

TEST_F(WebPageScript, FindingsHaveTheirRemedies) {
  RunRecord record = sample_record();
  record.profiles[0]["findings"].push_back(sample_finding_with_remedy());
  expect_scene("findings", record);
}

// What was tried needs no advice; no rounding and no word denies what an interval says.
TEST_F(WebPageScript, SaysWhatCameOfTryingAFinding) {
  RunRecord record = sample_record();
  record.run.speedup = {.ratio = 1.005, .low = 1.002, .high = 1.008, .pairs = 300};
  record.profiles[0]["findings"].push_back(sample_finding("data_loading", "num_workers"));
  TrialRecord trial = sample_trial(3, "num_workers", Verdict::rejected, {0.95, 0.62, 1.18, 10});
  trial.rejection = RejectionReason::no_gain;
  trial.is_given_up = true;
  record.trials.push_back(trial);
  expect_scene("tried", record);
}

TEST_F(WebPageScript, SaysBesideTheRatioThatTheTrainingLeftOutWhatWasMeasured) {
  RunRecord record = sample_record();
  leave_out_extension(record);
  expect_scene("left_out", record);
}

TEST_F(WebPageScript, FollowsARunThatMoves) {
  expect_scene("live", sample_record());
}

TEST_F(WebPageScript, ListsRunsAndCancels) {
  expect_scene("runs", sample_record());
}

TEST_F(WebPageScript, ComparesTwo) {
  expect_scene("compare", sample_record());
}

// A text of others in every place where a run has one.
TEST_F(WebPageScript, TextsNeverBecomeMarkup) {
  const std::string hostile = "<img src=x onerror=alert(1)>\"'`${alert(2)}</script><!--";
  RunRecord record = sample_record();
  record.run.recipe_name = hostile;
  record.run.error = hostile;
  record.run.ceiling_bound_by = hostile;
  record.environment->facts["cpu_model"] = hostile;
  for (TrialRecord& trial : record.trials) {
    trial.plugin = hostile;
    trial.reason = hostile;
    trial.proposal_reason = hostile;
    trial.change.set(hostile, hostile);
  }
  record.checks[1][0].detail = hostile;
  for (Json& profile : record.profiles) {
    profile["operators"][0]["name"] = "aten::" + hostile;
    Json finding = sample_finding(hostile, hostile);
    for (const char* const field : {"evidence", "advice", "severity", "gain", "code"})
      finding[field] = hostile;
    profile["findings"].push_back(std::move(finding));
  }
  expect_scene("hostile", record, hostile);
}

}  // namespace
}  // namespace autotuned::daemon
