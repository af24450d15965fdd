// SPDX-License-Identifier: Apache-2.0
// Copies of a history, and what pruning takes and leaves.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <stdexcept>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BackupTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "history.db";
  const std::filesystem::path copy_ = folder_ / "copy.db";
};

TEST_F(BackupTest, HoldsEverythingAndIsPrivate) {
  History history = open_with_run(file_);
  must(history.put_trial(sample_run().id, sample_trial()));
  must(history.put_block({sample_run().id, 1}, sample_block()));
  // While the history is open: the newest facts are in its log alone.
  const auto size = history.backup(copy_, false);
  ASSERT_TRUE(size) << size.error().message();
  EXPECT_EQ(static_cast<std::uintmax_t>(size->size_bytes), std::filesystem::file_size(copy_));
  EXPECT_EQ(size->runs_lost, 0);
  struct stat facts {};
  ASSERT_EQ(::stat(copy_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  EXPECT_THAT(names_in(folder_.path()),
              ElementsAre("copy.db", "history.db", "history.db-shm", "history.db-wal"));

  const auto copied = History::open(copy_, Access::read_only).value();
  EXPECT_EQ(text_of(copied.run("last").value()), text_of(sample_run()));
  EXPECT_EQ(copied.blocks({sample_run().id, 1}).value().size(), 1U);
  EXPECT_EQ(copied.check_integrity().value().text(), "ok");
}

// It says of itself what is missing, as the history does; the rest is worth a copy.
TEST_F(BackupTest, HoldsRowsThatLackAnother) {
  must(open_with_run(file_).put_trial(sample_run().id, sample_trial()));
  run_sql(file_, "PRAGMA foreign_keys = OFF; DELETE FROM runs");
  const History history = History::open(file_, Access::read_only).value();
  const auto size = history.backup(copy_, false);
  ASSERT_TRUE(size) << size.error().message();
  const auto copied = History::open(copy_, Access::read_only)->check_integrity();
  ASSERT_TRUE(copied) << copied.error().message();
  EXPECT_EQ(copied->damage, "");
  EXPECT_FALSE(copied->missing_references.empty());
}

TEST_F(BackupTest, CopyCanBeGoneOnWith) {
  ASSERT_TRUE(open_with_run(file_).backup(copy_, false));
  must(History::open(copy_, Access::read_write)->put_trial(sample_run().id, sample_trial()));
  EXPECT_EQ(History::open(copy_, Access::read_only)->trials(sample_run().id).value().size(), 1U);
  EXPECT_EQ(History::open(file_, Access::read_only)->trials(sample_run().id).value().size(), 0U);
}

TEST_F(BackupTest, ReplacesOnlyWhenTold) {
  const History history = open_with_run(file_);
  folder_.write("copy.db", "precious");
  const auto refused = history.backup(copy_, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().remedy, "name another file, or give --overwrite");
  EXPECT_EQ(folder_.read("copy.db"), "precious");
  folder_.write("copy.db", "");
  EXPECT_TRUE(history.backup(copy_, true)) << "an empty file holds nothing";
  EXPECT_TRUE(history.backup(copy_, true)) << "an earlier copy";
  EXPECT_TRUE(History::open(copy_, Access::read_only));
}

TEST_F(BackupTest, OnlyAHistoryIsReplaced) {
  const History history = open_with_run(file_);
  run_sql(folder_ / "other.db", "CREATE TABLE bookmarks (url TEXT)");
  folder_.write("short", "x");
  folder_.write("model.pt", std::string(5'000, 'x'));
  for (const char* name : {"other.db", "short", "model.pt"}) {
    const std::string before = folder_.read(name);
    const auto refused = history.backup(folder_ / name, true);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid) << name;
    EXPECT_EQ(refused.error().what, "it is not a history, and would be lost") << name;
    EXPECT_EQ(folder_.read(name), before) << name;
  }
}

TEST_F(BackupTest, RunsThatTheHistoryLacksAreNotReplaced) {
  const History history = open_with_run(file_);
  {
    History other = open_with_run(copy_, "r-20261122-000001");
    put_sample_run(other, "r-20261122-000002", RunState::finished, 2);
    put_sample_run(other, sample_run().id.text, RunState::finished, 3);
  }
  const auto refused = history.backup(copy_, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().what,
            "it is a history with 2 runs that this history lacks, and would be lost");
  EXPECT_THAT(refused.error().remedy, ::testing::HasSubstr("--drop-runs"));
  EXPECT_EQ(History::open(copy_, Access::read_only)->runs({}).value().size(), 3U);
  const auto made = history.backup(copy_, true, /*may_lose_runs=*/true);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->runs_lost, 2);
  EXPECT_EQ(History::open(copy_, Access::read_only)->runs({}).value().size(), 1U);
}

TEST_F(BackupTest, AFileThatIsNoHistoryIsNotReplacedForItsRuns) {
  const History history = open_with_run(file_);
  folder_.write("model.pt", std::string(5'000, 'x'));
  EXPECT_FALSE(history.backup(folder_ / "model.pt", true, /*may_lose_runs=*/true));
  EXPECT_FALSE(history.backup(folder_ / "model.pt", false, /*may_lose_runs=*/true));
}

// The log of a history holds its newest facts, and its locks tell which run is at work.
TEST_F(BackupTest, SideFilesOfAHistoryAreRefused) {
  const History history = open_with_run(file_);
  const auto claim = history.claim(sample_run().id).value();
  const std::filesystem::path another = folder_ / "another.db";
  const History in_use = open_with_run(another);
  std::filesystem::create_symlink("another.db", folder_ / "link.db");
  std::filesystem::create_directory_symlink(".", folder_ / "here");
  const auto before = names_in(folder_.path());
  for (const char* base :
       {"history.db", "another.db", "link.db", "here/history.db", "here/../another.db"}) {
    const std::string reserved = "this name is reserved for a file of the database " +
                                 (folder_ / base).lexically_normal().string();
    for (const char* suffix : {"-wal", "-shm", "-journal", "-owners"}) {
      const std::filesystem::path target = folder_ / (std::string(base) + suffix);
      for (const bool may_replace : {false, true}) {
        const auto refused = history.backup(target, may_replace);
        ASSERT_FALSE(refused) << target;
        EXPECT_EQ(refused.error().kind, ErrorKind::invalid) << target;
        EXPECT_EQ(refused.error().what, reserved);
      }
      const auto opened = History::open_to_write(target);
      ASSERT_FALSE(opened) << target;
      EXPECT_EQ(opened.error().what, reserved);
      EXPECT_FALSE(History::open_to_write(target / "below.db")) << target;
    }
  }
  EXPECT_EQ(names_in(folder_.path()), before);
  EXPECT_EQ(history.runs({}).value().size(), 1U);
  // Such a name without a database is free.
  EXPECT_TRUE(history.backup(folder_ / "before-wal", false));
}

TEST_F(BackupTest, LinksAndPipesAreNotReplaced) {
  const History history = open_with_run(file_);
  folder_.write("old.db", "precious");
  std::filesystem::create_symlink("old.db", folder_ / "link.db");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link.db", "pipe"}) {
    const auto refused = history.backup(folder_ / name, true);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid) << name;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.db"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(folder_.read("old.db"), "precious");
}

TEST_F(BackupTest, HistoryItselfIsRefused) {
  const History history = open_with_run(file_);
  std::filesystem::create_symlink(file_, folder_ / "link.db");
  for (const char* name : {"history.db", "link.db", ".", "missing/copy.db"}) {
    EXPECT_FALSE(history.backup(folder_ / name, true)) << name;
  }
  EXPECT_EQ(history.check_integrity().value().text(), "ok");
  EXPECT_EQ(history.runs({}).value().size(), 1U);
}

// They would be replayed over the copy when it is opened.
TEST_F(BackupTest, LogsOfAnotherDatabaseAreNotTakenOver) {
  const History history = open_with_run(file_);
  for (const char* name : {"copy.db-wal", "copy.db-journal"}) {
    folder_.write(name, "x");
    const auto refused = history.backup(copy_, true);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().what, "the log of another database lies beside the copy");
    EXPECT_EQ(refused.error().where, folder_ / name);
    EXPECT_FALSE(std::filesystem::exists(copy_));
    std::filesystem::remove(folder_ / name);
  }
  EXPECT_TRUE(history.backup(copy_, true));
}

TEST_F(BackupTest, DamageIsNotCopied) {
  {
    History history = open_with_run(file_);
    for (int i = 1; i < 200; ++i)
      must(history.put_trial(sample_run().id, sample_trial(i)));
  }
  std::string bytes = folder_.read("history.db");
  for (std::size_t at = bytes.size() / 2; at < bytes.size() / 2 + 3000; ++at)
    bytes[at] = '\x55';
  folder_.write("history.db", bytes);
  const auto history = History::open(file_, Access::read_only);
  ASSERT_TRUE(history) << history.error().message();
  const auto copied = history->backup(copy_, false);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().kind, ErrorKind::corrupt) << copied.error().message();
  EXPECT_THAT(names_in(folder_.path()), ::testing::Not(::testing::Contains("copy.db")));
}

// Writers go on meanwhile, and each copy is one moment: as many blocks as its trial says.
TEST_F(BackupTest, IsConsistentWhileOthersWrite) {
  static_cast<void>(open_with_run(file_));
  const int writer = start_child([&] {
    auto history = History::open(file_, Access::read_write).value();
    for (int pair = 1; pair <= 150; ++pair) {
      TrialRecord trial = sample_trial();
      trial.estimate.pairs = pair;
      must(history.put_trial(sample_run().id, trial));
      must(history.put_block({sample_run().id, 1}, sample_block(pair)));
    }
    return 0;
  });
  const auto history = History::open(file_, Access::read_only).value();
  for (int i = 0; i < 10; ++i) {
    const auto made = history.backup(copy_, true);
    ASSERT_TRUE(made) << made.error().message();
    const auto copied = History::open(copy_, Access::read_only).value();
    const auto trials = copied.trials(sample_run().id).value();
    if (trials.empty()) continue;
    const int blocks = static_cast<int>(copied.blocks({sample_run().id, 1}).value().size());
    EXPECT_GE(trials.at(0).estimate.pairs, blocks);
    EXPECT_LE(trials.at(0).estimate.pairs, blocks + 1);
  }
  EXPECT_EQ(wait_for(writer), 0);
}

class PruneTest : public ::testing::Test {
 protected:
  // Started at `second`, with two trials and everything that hangs on them.
  void put(const std::string& id, std::int64_t second, RunState state = RunState::finished,
           const std::string& recipe = "h1") {
    RunRow run = sample_run(id);
    run.recipe_hash = recipe;
    run.started_unix_ns = second;
    run.state = state;
    must(history_.put_recipe(sample_recipe(recipe)));
    must(history_.put_run(run));
    for (const int number : {1, 2}) {
      must(history_.put_trial(run.id, sample_trial(number)));
      must(history_.put_block({run.id, number}, sample_block()));
      must(history_.put_check({run.id, number}, {"exact", true, 12, "equal"}));
    }
    must(history_.put_trainer_end({run.id, 2}, {.outcome = TrainerOutcome::hung}));
    must(history_.put_profile(run.id, run.best, {}, Json::array(), Json::array(), 1,
                              std::vector{sample_finding()}));
    must(history_.put_plugin_asked(run.id, {.plugin = "p", .version = "1", .sha256 = "aa"}));
  }
  void put_best(const std::string& id) {
    must(history_.put_best({.recipe_hash = "h1",
                            .environment_key = "e1",
                            .run = {id},
                            .best = sample_run().best,
                            .speedup = {},
                            .updated_unix_ns = 1}));
  }
  [[nodiscard]] std::vector<std::string> planned(const PruneRule& rule) const {
    std::vector<std::string> ids;
    const PrunePlan plan = history_.plan_pruning(rule).value();
    for (const PrunableRun& run : plan.runs)
      ids.push_back(run.id.text);
    return ids;
  }

  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "history.db";
  History history_ = [this] {
    auto history = History::open(file_, Access::read_write).value();
    must(history.put_environment(sample_environment()));
    return history;
  }();
};

TEST_F(PruneTest, RulesChooseByAgeAndNumber) {
  for (const int second : {1, 2, 3, 4})
    put("r-" + std::to_string(second), second);
  EXPECT_THAT(planned({.before_unix_ns = 3}), ElementsAre("r-1", "r-2"));
  EXPECT_THAT(planned({.keep_last = 1}), ElementsAre("r-1", "r-2", "r-3"));
  EXPECT_THAT(planned({.before_unix_ns = 3, .keep_last = 3}), ElementsAre("r-1"));
  EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-1", "r-2", "r-3", "r-4"));
  EXPECT_THAT(planned({.keep_last = 9}), IsEmpty());
  EXPECT_EQ(history_.plan_pruning({.keep_last = 3}).value().runs.at(0).trials, 2);
  EXPECT_EQ(history_.plan_pruning({}).error().kind, ErrorKind::invalid);
}

TEST_F(PruneTest, WhatABestConfigurationRestsOnStays) {
  put("r-older", 1);
  put("r-found", 2);
  put("r-verified", 3);
  TrialRecord verification = sample_trial(3);
  verification.kind = TrialKind::verification;
  must(history_.put_trial({"r-verified"}, verification));
  put("r-newer", 4, RunState::failed, "h2");
  put_best("r-verified");
  const auto plan = history_.plan_pruning({.keep_last = 0}).value();
  EXPECT_EQ(plan.kept_for_best, 2);
  EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-older", "r-newer"));
  EXPECT_FALSE(history_.remove_run({"r-verified"}).value());
}

TEST_F(PruneTest, WhoSearchedAfterARejectedVerificationFoundIt) {
  put("r-found", 1);
  TrialRecord verification = sample_trial(3);
  verification.kind = TrialKind::verification;
  verification.verdict = Verdict::rejected;
  must(history_.put_trial({"r-found"}, verification));
  put("r-verified", 2);
  verification.verdict = Verdict::accepted;
  must(history_.put_trial({"r-verified"}, verification));
  RunRow idle = sample_run("r-idle");
  idle.started_unix_ns = 3;
  idle.state = RunState::finished;
  must(history_.put_run(idle));
  put_best("r-verified");
  EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-idle"));
}

// Without the run that superseded it, the same command would go on with the old one.
TEST_F(PruneTest, WhatSupersedesUnfinishedWorkStays) {
  put("r-training", 1, RunState::training);
  put("r-between", 2);
  put("r-newest", 3);
  put("r-failed", 4, RunState::failed);
  {
    const auto at_work = history_.claim({"r-training"}).value();
    EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-between", "r-failed"));
  }
  // Nobody goes on with it any more, so that all may go.
  EXPECT_THAT(planned({.keep_last = 0}),
              ElementsAre("r-training", "r-between", "r-newest", "r-failed"));
}

TEST_F(PruneTest, UnfinishedWorkStays) {
  put("r-superseded", 1, RunState::cancelled);
  put("r-tuning", 2, RunState::tuning);
  put("r-training", 3, RunState::training);
  put("r-failed", 4, RunState::failed);
  put("r-cancelled", 5, RunState::cancelled);
  put("r-failed-later", 6, RunState::failed);
  put("r-cancelled-too", 7, RunState::cancelled, "h2");
  {
    const auto tuning = history_.claim({"r-tuning"}).value();
    const auto training = history_.claim({"r-training"}).value();
    EXPECT_EQ(history_.plan_pruning({.keep_last = 0}).value().kept_unfinished, 4);
    EXPECT_THAT(planned({.keep_last = 0}),
                ElementsAre("r-superseded", "r-failed", "r-failed-later"));
    EXPECT_FALSE(history_.remove_run({"r-tuning"}).value());
    EXPECT_FALSE(history_.remove_run({"r-unknown"}).value());
  }
  // Their processes have ended, and nothing goes on with them: there is a later run of that job.
  EXPECT_EQ(history_.plan_pruning({.keep_last = 0}).value().kept_unfinished, 2);
  EXPECT_THAT(planned({.keep_last = 0}),
              ElementsAre("r-superseded", "r-tuning", "r-training", "r-failed", "r-failed-later"));
  EXPECT_TRUE(history_.remove_run({"r-tuning"}).value());
}

// Without the later one the same command would go on with the older one.
TEST_F(PruneTest, RunThatEndedStaysWhileAnOlderUnfinishedOneDoes) {
  put("r-interrupted", 1, RunState::training);
  put("r-finished", 2);
  EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-interrupted", "r-finished"));
  put_best("r-interrupted");
  EXPECT_THAT(planned({.keep_last = 0}), IsEmpty());
  EXPECT_EQ(history_.plan_pruning({.keep_last = 0}).value().kept_for_best, 1);
  EXPECT_EQ(history_.plan_pruning({.keep_last = 0}).value().kept_unfinished, 1);
}

TEST_F(PruneTest, WhatAnUnfinishedRunExtendsStays) {
  put("r-base", 1);
  put("r-other", 2);
  RunRow sequel = sample_run("r-sequel");
  sequel.started_unix_ns = 3;
  sequel.state = RunState::cancelled;
  sequel.plan = R"({"extends":"r-base"})";
  must(history_.put_run(sequel));
  EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-other"));
  EXPECT_FALSE(history_.remove_run({"r-base"}).value());
  sequel.state = RunState::failed;
  must(history_.update_run(sequel));
  EXPECT_THAT(planned({.keep_last = 0}), ElementsAre("r-base", "r-other", "r-sequel"));
  EXPECT_TRUE(history_.remove_run({"r-base"}).value());
}

TEST_F(PruneTest, RemovedRunsLeaveNothingAndOthersEverything) {
  put("r-1", 1);
  put("r-2", 2);
  ASSERT_TRUE(history_.remove_run({"r-1"}).value());
  EXPECT_EQ(history_.run("r-1").error().kind, ErrorKind::not_found);
  EXPECT_EQ(history_.trials({"r-2"}).value().size(), 2U);
  EXPECT_EQ(history_.check_integrity().value().text(), "ok");
  SQLite::Database database(file_.string());
  const auto count = [&](const std::string& table) {
    return database.execAndGet("SELECT count(*) FROM " + table).getInt();
  };
  for (const char* table : {"trials", "blocks", "checks"})
    EXPECT_EQ(count(table), 2) << table;
  for (const char* table : {"runs", "profiles", "findings", "plugin_answers", "trainer_ends"})
    EXPECT_EQ(count(table), 1) << table;
}

TEST_F(PruneTest, CompactingGivesSpaceBack) {
  put("r-1", 1);
  must(history_.put_profile({"r-1"}, {}, Json(std::string(3'000'000, 'x')), {}, {}, 1));
  ASSERT_TRUE(history_.remove_run({"r-1"}).value());
  EXPECT_GE(history_.backup(folder_ / "large.db", false).value().size_bytes, 3'000'000);
  {
    const auto other = History::open(file_, Access::read_only).value();
    ASSERT_TRUE(other.runs({}));
    auto impatient =
        History::open(file_, Access::read_write, std::chrono::milliseconds(20)).value();
    EXPECT_EQ(impatient.compact().error().kind, ErrorKind::busy);
  }
  must(history_.compact());
  must(history_.put_environment(sample_environment("e9")));
  EXPECT_EQ(SQLite::Database(file_.string()).execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_LT(history_.backup(folder_ / "small.db", false).value().size_bytes, 300'000);
  EXPECT_EQ(history_.check_integrity().value().text(), "ok");
}

}  // namespace
}  // namespace autotuned::storage
