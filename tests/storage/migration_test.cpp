// SPDX-License-Identifier: Apache-2.0
// Histories of earlier versions: they open, and their rows get what later versions store.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <unistd.h>

#include "storage/history.hpp"
#include "storage/migrations.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MigrationTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "history.db";
};

TEST_F(MigrationTest, HistoryOfEveryReleasedVersionOpens) {
  const std::filesystem::path data = tests::source_folder() / "tests/storage/data";
  int versions = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    ++versions;
    for (const Access access : {Access::read_only, Access::read_write}) {
      std::filesystem::copy_file(entry.path(), file_,
                                 std::filesystem::copy_options::overwrite_existing);
      const auto history = History::open(file_, access);
      ASSERT_TRUE(history) << entry.path() << ": " << history.error().message();
      const auto run = history->run("r-20261121-7f3a9c");
      ASSERT_TRUE(run) << run.error().message();
      EXPECT_EQ(run->recipe_name, "fashion");
      EXPECT_EQ(run->starting.integer("loader.workers"), 0);
      EXPECT_EQ(run->is_retuned, entry.path().filename() >= "v4.db");
      EXPECT_TRUE(run->ceiling_ladder.is_array());
      EXPECT_EQ(run->ceiling_ladder.empty(), entry.path().filename() < "v4.db");
      EXPECT_EQ(history->trials(run->id).value().at(0).plugin, "num_workers");
      EXPECT_EQ(history->blocks({run->id, 1}).value().at(0).block.steps, 12);
      EXPECT_EQ(history->checks({run->id, 1}).value().at(0).risk, "exact");
      EXPECT_EQ(history->plugin_answers(run->id).value().at(0).sha256, "aa");
      EXPECT_FALSE(history->profiles(run->id).value().empty());
      EXPECT_EQ(history->best("h1", "e1").value()->speedup.ratio, 2.0);
      EXPECT_EQ(history->check_integrity().value().text(), "ok");
    }
  }
  EXPECT_EQ(versions, 2) << "one file per released schema version";
}

TEST_F(MigrationTest, AHistoryThatIsOnlyReadSaysThatItIsOutdated) {
  static_cast<void>(open_with_run(file_));
  EXPECT_EQ(History::open(file_, Access::read_only)->outdated_text(), "");
  bring_back_to_version_13(file_);
  EXPECT_EQ(
      History::open(file_, Access::read_only)->outdated_text(),
      file_.string() +
          ": the history has schema version 13 of an earlier autotuned, and this one writes " +
          std::to_string(migrations().size()) +
          ": what later versions store is not shown. The next 'autotuned run' brings it up to "
          "date");
  EXPECT_EQ(History::open(file_, Access::read_write)->outdated_text(), "");
  EXPECT_EQ(History::open(file_, Access::read_only)->outdated_text(), "");
}

TEST_F(MigrationTest, AHistoryThatCannotBeWrittenNamesTheImport) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  static_cast<void>(open_with_run(file_));
  bring_back_to_version_13(file_);
  std::filesystem::permissions(file_, std::filesystem::perms::owner_read);
  EXPECT_THAT(History::open(file_, Access::read_only)->outdated_text(),
              HasSubstr("It cannot be written: 'autotuned history import FILE --history COPY'"));
}

// Nobody may tell from such a file which runs are needed.
TEST_F(MigrationTest, APlanOfPruningNeedsVersion10) {
  std::filesystem::copy_file(tests::source_folder() / "tests/storage/data/v2.db", file_);
  const auto refused =
      History::open(file_, Access::read_only)->plan_pruning({.before_unix_ns = {}, .keep_last = 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().what, HasSubstr("schema version 2 "));
  EXPECT_THAT(refused.error().remedy, testing::Not(HasSubstr("prune"))) << "that removes runs";
  EXPECT_THAT(refused.error().remedy, HasSubstr("import " + file_.string() + " --history COPY"));
  EXPECT_TRUE(History::open(file_, Access::read_write)
                  ->plan_pruning({.before_unix_ns = {}, .keep_last = 0}));
}

// Version 12 added the severity of findings, version 13 what acting on them saves and how.
TEST_F(MigrationTest, FindingsOfVersion11HaveNoSeverityAndNoRemedy) {
  const RunId run = sample_run().id;
  const std::vector<FindingRecord> found = {sample_finding()};
  {
    History history = open_with_run(file_);
    must(history.put_profile(run, {}, {}, Json::array(), Json::array(), 1, found));
  }
  bring_back_to_version_13(file_);
  run_sql(file_,
          "ALTER TABLE findings DROP COLUMN severity; ALTER TABLE findings DROP COLUMN gain; "
          "ALTER TABLE findings DROP COLUMN code; PRAGMA user_version = 11");
  const auto newer = [&](const History& history, std::size_t profile) {
    const Json finding = history.profiles(run).value().at(profile).at("findings").at(0);
    return Json({finding.at("severity"), finding.at("gain"), finding.at("code")});
  };
  const Json nothing = {nullptr, nullptr, nullptr};
  EXPECT_EQ(newer(History::open(file_, Access::read_only).value(), 0), nothing);
  auto history = History::open(file_, Access::read_write);
  ASSERT_TRUE(history) << history.error().message();
  EXPECT_EQ(newer(*history, 0), nothing);
  must(history->put_profile(run, {}, {}, Json::array(), Json::array(), 2, found));
  EXPECT_EQ(newer(*history, 1), Json({"high", found[0].gain, found[0].code}));
  EXPECT_EQ(history->profiles(run).value().at(0).at("findings").at(0).at("id"), found[0].id);
}

// Plugin, kind and subject of each row of plugin_answers.
std::vector<std::string> kinds_in(const History& history) {
  std::vector<std::string> kinds;
  const auto answers = history.plugin_answers(sample_run().id);
  for (const PluginAnswerRow& answer : answers.value()) {
    kinds.push_back(answer.plugin + " " + std::string(to_string(answer.kind)) +
                    (answer.subject.empty() ? "" : " " + answer.subject));
  }
  return kinds;
}

void put_answer(History& history, const std::string& plugin, const std::string& outcome) {
  const RunId run = sample_run().id;
  must(history.put_plugin_asked(run, {.plugin = plugin, .version = "1", .sha256 = "aa"}));
  if (!outcome.empty()) must(history.put_plugin_answered(run, plugin, outcome, false));
}

// Version 14 stores what older rows only say in their sentences.
TEST_F(MigrationTest, AnswersOfVersion13GetTheirKindFromTheirSentence) {
  {
    History history = open_with_run(file_);
    put_answer(history, "open", "");
    put_answer(history, "amp", "no bf16: is refused: by its own words");
    put_answer(history, "old", "is refused: of another version");
    put_answer(history, "tf32", "is unsupported: no GPU");
    put_answer(history, kMachineName, "load: others compute: much");
    put_answer(history, kMachineName, "clock: clocks are slow");
  }
  bring_back_to_version_13(file_);
  EXPECT_THAT(kinds_in(History::open(file_, Access::read_only).value()),
              ElementsAre("open asked", "amp asked", "old asked", "tf32 asked", "(machine) machine",
                          "(machine) machine"))
      << "of a file that is only read, a name is known and no sentence is read";
  EXPECT_THAT(kinds_in(History::open(file_, Access::read_write).value()),
              ElementsAre("open asked", "amp asked", "old refused", "tf32 unsupported",
                          "(machine) machine load", "(machine) machine clock"));
}

TEST_F(MigrationTest, RejectionsOfOlderVersionsGetTheirNameFromTheirSentence) {
  struct Case {
    TrialKind kind;
    std::optional<RejectionReason> stored;
    std::string reason;
    double high;
    std::optional<RejectionReason> expected;
    bool is_given_up;
  };
  using Reason = RejectionReason;
  const std::vector<Case> cases = {
      {TrialKind::proposal, Reason::no_gain, "gain unlikely: 0.95", 1.2, Reason::no_gain, true},
      {TrialKind::proposal, Reason::no_gain, "no gain worth having", 1.0, Reason::no_gain, false},
      {TrialKind::proposal, Reason::not_same_model, "gain unlikely, says a check", 1.2,
       Reason::not_same_model, false},
      {TrialKind::proposal, {}, "gain unlikely: 0.95", 1.2, Reason::no_gain, true},
      {TrialKind::proposal, {}, "gain unlikely: 0.95", 0.99, Reason::slower, false},
      {TrialKind::proposal, {}, "slower: 0.9", 0.95, Reason::slower, false},
      {TrialKind::proposal,
       {},
       "no gain shown in its time: 1.0",
       1.2,
       Reason::undecided_in_time,
       false},
      {TrialKind::ablation, {}, "no gain shown in its time: 1.0", 1.2, Reason::no_gain, false},
      {TrialKind::proposal, {}, "no gain worth having: 1.0", 1.01, Reason::no_gain, false},
      {TrialKind::proposal, {}, "it uses 3.0 GiB of memory", 1.2, {}, false}};
  const RunId run = sample_run().id;
  const int failed = static_cast<int>(cases.size()) + 1;
  {
    History history = open_with_run(file_);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      TrialRecord trial = sample_trial(static_cast<int>(i) + 1);
      trial.verdict = Verdict::rejected;
      trial.kind = cases[i].kind;
      trial.rejection = cases[i].stored;
      trial.reason = cases[i].reason;
      trial.estimate.high = cases[i].high;
      must(history.put_trial(run, trial));
    }
    TrialRecord trial = sample_trial(failed);
    trial.verdict = Verdict::rejected;
    trial.rejection.reset();
    trial.reason = "no gain in a model that differs";
    must(history.put_trial(run, trial));
    must(history.put_check({run, failed}, {.risk = "exact", .passed = true, .detail = {}}));
    must(history.put_check({run, failed}, {.risk = "exact", .passed = false, .detail = {}}));
  }
  bring_back_to_version_13(file_);
  const auto trials = History::open(file_, Access::read_write)->trials(run).value();
  ASSERT_EQ(trials.size(), cases.size() + 1);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(trials[i].rejection, cases[i].expected) << i;
    EXPECT_EQ(trials[i].is_given_up, cases[i].is_given_up) << i;
  }
  EXPECT_EQ(trials.back().rejection, Reason::not_same_model);
}

TEST_F(MigrationTest, DisturbancesOfVersion13GetTheirSubjects) {
  {
    History history = open_with_run(file_);
    RunRow run = sample_run();
    run.training["disturbances"] = {"load: others compute", "heat: too hot", "in other words"};
    must(history.update_run(run));
    put_sample_run(history, "r-20261121-000002", RunState::finished, 2);
    put_sample_run(history, "r-20261121-000003", RunState::finished, 3);
  }
  bring_back_to_version_13(file_);
  run_sql(file_, "UPDATE runs SET training = '{broken' WHERE id = 'r-20261121-000003'");
  const History history = History::open(file_, Access::read_write).value();
  EXPECT_EQ(history.run(sample_run().id.text)->training.at("disturbance_subjects"),
            Json::array({"load", "heat", ""}));
  EXPECT_EQ(history.run(sample_run().id.text)->training.at("final_loss"), 0.5);
  EXPECT_FALSE(history.run("r-20261121-000002")->training.contains("disturbance_subjects"));
  EXPECT_EQ(history.run("r-20261121-000003").error().kind, ErrorKind::corrupt);
}

TEST_F(MigrationTest, EndsOfTuningOfVersion13GetTheirCause) {
  const std::vector<std::pair<std::string, Json>> cases = {
      {"it ended before its tuning did; what was tried is on record",
       {"ended before its tuning did", true}},
      {"it ended before it imported PyTorch", {"ended before it imported PyTorch", true}},
      {"the agent in the script let go: it failed; what was tried is on record",
       {"the agent in the script let go: it failed", false}}};
  {
    History history = open_with_run(file_);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      RunRow run = sample_run("r-20261121-00000" + std::to_string(i));
      run.training["untuned"] = cases[i].first;
      must(history.put_run(run));
    }
  }
  bring_back_to_version_13(file_);
  const History history = History::open(file_, Access::read_write).value();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json training = history.run("r-20261121-00000" + std::to_string(i))->training;
    EXPECT_EQ(training.at("untuned"), cases[i].first);
    EXPECT_EQ(Json({training.at("untuned_cause"), training.at("is_untuned_by_script")}),
              cases[i].second);
  }
  EXPECT_FALSE(history.run(sample_run().id.text)->training.contains("untuned_cause"));
}

TEST_F(MigrationTest, FallbacksOfVersion13SayWhoHadTheMemory) {
  {
    History history = open_with_run(file_);
    RunRow run = sample_run();
    run.training["fallbacks"] = {{{"error", "full; use smaller batches"}, {"unix_ns", 1}},
                                 {{"error", "full; end the other programs on this GPU"}},
                                 {{"unix_ns", 3}}};
    must(history.update_run(run));
    run = sample_run("r-20261121-000002");
    run.training["fallbacks"] = {"odd", 1};
    must(history.put_run(run));
  }
  bring_back_to_version_13(file_);
  const History history = History::open(file_, Access::read_write).value();
  const Json fallbacks = history.run(sample_run().id.text)->training.at("fallbacks");
  ASSERT_EQ(fallbacks.size(), 3U);
  EXPECT_EQ(fallbacks[0].at("is_memory_of_others"), false);
  EXPECT_EQ(fallbacks[0].at("unix_ns"), 1);
  EXPECT_EQ(fallbacks[1].at("is_memory_of_others"), true);
  EXPECT_EQ(fallbacks[2].at("is_memory_of_others"), false);
  EXPECT_EQ(history.run("r-20261121-000002")->training.at("fallbacks"), Json({"odd", 1}));
}

}  // namespace
}  // namespace autotuned::storage
