// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/job_trend.hpp"

#include <gmock/gmock.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/report/figures.hpp"
#include "daemon/report/story.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"
#include "tests/golden.hpp"
#include "tuner/advisors.hpp"

namespace autotuned::daemon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobTrends : public ::testing::Test {
 protected:
  // Days are those of the time zone.
  JobTrends() { ::tzset(); }

  // A finished run of the one job, with this rate; `finding` is what was found on the machine, "" for nothing.
  void add(const std::string& id, double rate, const std::string& finding = "") {
    storage::RunRow run = small_;
    run.id = {id};
    run.state = storage::RunState::finished;
    add(run, rate, finding);
  }

  void add(storage::RunRow run, double rate, const std::string& finding = "") {
    run.best_samples_per_second = rate;
    ASSERT_TRUE(history_.put_run(run));
    if (finding.empty()) return;
    ASSERT_TRUE(
        history_.put_plugin_asked(run.id, {.plugin = storage::kMachineName,
                                           .kind = storage::AnswerKind::machine,
                                           .subject = finding.substr(0, finding.find(':'))}));
    ASSERT_TRUE(history_.put_plugin_answered(run.id, storage::kMachineName, finding, false));
  }

  std::vector<JobTrend> trends() {
    auto found = job_trends(history_, history_.runs({}).value());
    EXPECT_TRUE(found) << found.error().message();
    return *std::move(found);
  }

  const EnvironmentVariable zone_{"TZ", "UTC"};
  TemporaryFolder folder_;
  storage::History history_ =
      storage::History::open(folder_ / "history.db", storage::Access::read_write).value();
  const storage::RunRow small_ = put_small_run(history_);  // has no rate
};

const char* const kLoad = "load: other programs used 1.2 of the 2 CPUs during the measurement";

TEST_F(JobTrends, BetweenTwoQuietRunsIsAChange) {
  add("r-1", 1000.0, "clock: the CPU frequency governor is 'powersave' (2 CPUs)");
  add("r-2", 900.0);
  const auto found = trends();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_TRUE(found[0].is_comparable());
  EXPECT_EQ(trends_json(found).at(0).at("is_comparable"), true);
  tests::expect_golden("daemon/report/golden/trend_quiet.txt", trends_text(found));
}

TEST_F(JobTrends, BesideALoadIsNone) {
  add("r-1", 1000.0);
  add("r-2", 500.0, kLoad);
  const auto found = trends();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].is_comparable());
  tests::expect_golden("daemon/report/golden/trend_busy.txt", trends_text(found));
  const Json json = trends_json(found).at(0);
  EXPECT_EQ(json.at("is_comparable"), false);
  EXPECT_EQ(json.at("newest").at("disturbances"), Json::array({kLoad}));
  EXPECT_THAT(json.at("fastest_before").at("disturbances"), IsEmpty());
}

TEST_F(JobTrends, ComparesWithAQuietRunWhereThereIsOne) {
  add("r-1", 800.0);
  add("r-2", 1000.0, kLoad);
  add("r-3", 790.0);
  const auto found = trends();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].fastest_before.run.id.text, "r-1");
  EXPECT_TRUE(found[0].is_comparable());
}

// What disturbed a run is recorded at the end of its search.
TEST_F(JobTrends, OfARunWhoseSearchDidNotEndIsUnknown) {
  add("r-1", 800.0);
  storage::RunRow stopped = small_;
  stopped.id = {"r-2"};
  stopped.state = storage::RunState::cancelled;
  stopped.best = {};
  add(stopped, 1000.0, "clock: the CPU frequency governor is 'powersave' (2 CPUs)");
  add("r-3", 790.0);
  auto found = trends();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].fastest_before.run.id.text, "r-1") << "it is known to be quiet";
  EXPECT_TRUE(found[0].is_comparable());

  stopped.id = {"r-4"};
  add(stopped, 400.0);
  found = trends();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].is_comparable());
  tests::expect_golden("daemon/report/golden/trend_unknown.txt", trends_text(found));
  EXPECT_EQ(trends_json(found).at(0).at("newest").at("disturbances"), "unknown");
}

TEST_F(JobTrends, OfAScriptIsUnknownUnlessSomethingWasRecorded) {
  storage::RunRow script = small_;
  script.recipe = {{"kind", "script"}, {"name", "train.py"}};
  script.state = storage::RunState::finished;
  script.id = {"r-1"};
  add(script, 800.0);
  script.id = {"r-2"};
  add(script, 700.0, kLoad);
  const auto found = trends();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].is_comparable());
  tests::expect_golden("daemon/report/golden/trend_script.txt", trends_text(found));
}

std::size_t widest_of(const std::string& table) {
  std::istringstream lines(table);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line) && !line.ends_with('.');)
    widest = std::max(widest, table_columns(std::vector(1, std::vector{line})));
  return widest;
}

TEST_F(JobTrends, FitIntoATerminal) {
  add("r-1", 12'345.0, kLoad);
  add("r-2", 11'000.0, kLoad);
  auto found = trends();
  ASSERT_THAT(found, SizeIs(1));
  found[0].machine = "AMD EPYC 9V74 80-Core Processor, 2 CPUs";
  const std::string whole = trends_text(found);
  EXPECT_GT(widest_of(whole), 100U);
  EXPECT_EQ(trends_text(found, 200), whole);
  // The one machine there is goes first, as far as it takes; rates share their unit.
  const std::string narrow = trends_text(found, 80);
  EXPECT_LE(widest_of(narrow), 80U) << narrow;
  // If there are several machines, a part of each name stays to tell them apart.
  found.push_back(found[0]);
  found[1].machine = "Intel Xeon Platinum 8481C, 8 CPUs";
  const std::string two = trends_text(found, 80);
  EXPECT_LE(widest_of(two), 80U) << two;
  tests::expect_golden("daemon/report/golden/trend_narrow.txt", narrow + "\n" + two);
}

class PluginGains : public JobTrends {
 protected:
  // A run whose search has ended.
  void SetUp() override {
    storage::RunRow run = small_;
    run.state = storage::RunState::finished;
    run.best.set("loader.workers", std::int64_t{1});
    ASSERT_TRUE(history_.update_run(run));
  }

  void add_trial(const std::string& plugin, Verdict verdict, double ratio = 0.0,
                 TrialKind kind = TrialKind::proposal) {
    TrialRecord trial;
    trial.kind = kind;
    trial.number = ++trials_;
    trial.plugin = plugin;
    trial.risk = "exact";
    trial.change.set("loader.workers", std::int64_t{trials_});
    trial.verdict = verdict;
    trial.estimate.ratio = ratio;
    ASSERT_TRUE(history_.put_trial(small_.id, trial));
  }

  int trials_ = 0;
};

TEST_F(PluginGains, CountEachDecidedTrialOnceAndJointOnesForNoPlugin) {
  add_trial("num_workers", Verdict::accepted, 1.2);
  add_trial("num_workers", Verdict::rejected);
  add_trial("tf32", Verdict::rejected);
  add_trial(tuner::kOwnName, Verdict::accepted, 1.5);
  add_trial(tuner::kOwnName, Verdict::interrupted);
  const auto gains = plugin_gains(history_);
  ASSERT_TRUE(gains) << gains.error().message();
  std::int64_t tried = 0;
  for (const PluginGain& gain : *gains)
    tried += gain.tried;
  EXPECT_EQ(tried, 4);
  const Json json = gains_json(*gains);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_TRUE(json.at(0).at("plugin").is_null()) << "the largest gain first";
  EXPECT_EQ(json.at(0).at("tried"), 1);
  EXPECT_EQ(json.at(1).at("plugin"), "num_workers");
  tests::expect_golden("daemon/report/golden/plugin_gains.txt", gains_text(*gains));
}

TEST_F(PluginGains, DoNotCreditAChangeThatTheConfirmationDropped) {
  add_trial("num_workers", Verdict::accepted, 1.2);
  add_trial("amp", Verdict::accepted, 1.68);
  add_trial(tuner::kOwnName, Verdict::rejected, 1.0, TrialKind::confirmation);
  const auto gains = plugin_gains(history_);
  ASSERT_TRUE(gains) << gains.error().message();
  ASSERT_THAT(*gains, SizeIs(2));
  EXPECT_EQ(gains->at(0).plugin, "num_workers");
  EXPECT_EQ(gains->at(0).won, 1);
  EXPECT_EQ(gains->at(1).plugin, "amp");
  EXPECT_EQ(gains->at(1).tried, 1);
  EXPECT_EQ(gains->at(1).won, 0);
}

TEST_F(PluginGains, DoNotCreditAChangeOfARunWhoseSearchDidNotEnd) {
  storage::RunRow stopped = small_;
  stopped.state = storage::RunState::cancelled;  // and `best` is empty
  ASSERT_TRUE(history_.update_run(stopped));
  add_trial("num_workers", Verdict::accepted, 1.2);
  const auto gains = plugin_gains(history_);
  ASSERT_TRUE(gains) << gains.error().message();
  ASSERT_THAT(*gains, SizeIs(1));
  EXPECT_EQ(gains->at(0).tried, 1);
  EXPECT_EQ(gains->at(0).won, 0);
}

TEST_F(PluginGains, SayNothingOfJointChangesWhereThereAreNone) {
  add_trial("num_workers", Verdict::accepted, 1.2);
  EXPECT_EQ(gains_text(plugin_gains(history_).value()).find("(together)"), std::string::npos);
}

}  // namespace
}  // namespace autotuned::daemon
