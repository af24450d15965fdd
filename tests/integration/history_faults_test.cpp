// SPDX-License-Identifier: Apache-2.0
// A history that cannot be used, and a disk that is full: said clearly, and nothing is damaged.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <regex>

#include "storage/history.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

void execute(const std::filesystem::path& file, sqlite3** database, const char* sql) {
  ASSERT_EQ(sqlite3_open(file.c_str(), database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(*database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(*database);
}

void expect_refused(const Scene& scene, const std::string& reason) {
  const std::string before = scene.folder().read("state/history.db");
  const Outcome outcome = scene.run();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(scene.history().string()));
  EXPECT_THAT(outcome.err, HasSubstr(reason));
  EXPECT_THAT(outcome.json().at("error").get<std::string>(), HasSubstr(reason));
  EXPECT_EQ(scene.folder().read("state/history.db"), before);
  EXPECT_TRUE(scene.fake().requests("run").empty());
}

TEST(HistoryFault, FileThatIsNoHistoryIsLeftAlone) {
  const Scene scene;
  scene.folder().write("state/history.db", std::string(5000, 'x'));
  expect_refused(scene, "not");
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(HistoryFault, NewerOneIsLeftAlone) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  sqlite3* database = nullptr;
  execute(scene.history(), &database, "PRAGMA user_version=99; PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite3_close(database);
  scene.fake().forget_requests();
  expect_refused(scene, "99");
}

TEST(HistoryFault, DamagedOneIsLeftAlone) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  std::string bytes = scene.folder().read("state/history.db");
  for (std::size_t i = 100; i < 400; ++i)
    bytes[i] = '\x7f';
  scene.folder().write("state/history.db", bytes);
  scene.fake().forget_requests();
  expect_refused(scene, "");
}

TEST(HistoryFault, LockedOneIsNamed) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  scene.fake().forget_requests();
  sqlite3* database = nullptr;
  execute(scene.history(), &database, "BEGIN EXCLUSIVE");
  expect_refused(scene, "locked");
  sqlite3_close(database);
  EXPECT_EQ(scene.run({"--tune-only"}).code, 0);
}

TEST(HistoryFault, OneThatCannotBeWrittenIsNamed) {
  Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  scene.fake().forget_requests();
  chmod(scene.history().c_str(), 0400);
  scene.obey_permissions();
  expect_refused(scene, "Permission denied");
  // Reading needs no more than that.
  EXPECT_EQ(scene.runs().size(), 1);
}

// What became of the run cannot be stored: the command says so, and what the history still has is gone on with.
TEST(HistoryFault, EndThatCannotBeStoredIsTold) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  sqlite3* database = nullptr;
  execute(scene.history(), &database,
          "CREATE TRIGGER refuse BEFORE UPDATE ON runs WHEN NEW.state = 'failed' "
          "BEGIN SELECT RAISE(ABORT, 'refused by a test'); END");
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"do", "error"}, {"kind", "internal"}, {"request", "run"}}};
  scene.fake().behave(behaviour);
  const Outcome outcome = scene.run();
  EXPECT_EQ(outcome.code, 1);
  const std::string run = scene.last_run().at("run");
  EXPECT_THAT(outcome.err, HasSubstr("the fake says internal"));
  EXPECT_THAT(outcome.err, HasSubstr("warning: the end of run " + run + " could not be stored"));
  EXPECT_THAT(outcome.err, HasSubstr("refused by a test"));
  EXPECT_EQ(scene.last_run().at("state"), "tuning");
  ASSERT_EQ(sqlite3_exec(database, "DROP TRIGGER refuse", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  scene.fake().behave(Scene::fast_job());
  const Outcome again = scene.run();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json().at("run"), run);
}

TEST(HistoryFault, OutputFolderThatCannotBeWrittenIsNamed) {
  Scene scene;
  std::filesystem::create_directory(scene.folder() / "out");
  scene.obey_permissions();
  chmod((scene.folder() / "out").c_str(), 0500);
  expect_output_folder_refused(scene);
}

// What must hold after a run on a disk that was full at some moment, and after the next on one that is not.
void expect_nothing_lost(const Scene& scene, const Outcome& outcome) {
  EXPECT_TRUE(scene.all_ended());
  if (outcome.code != 0) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("error: "));
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr("started again")));
  }
  std::size_t announced = 0;
  for (std::size_t at = 0; (at = outcome.err.find("\naccepted ", at)) != std::string::npos; ++at)
    ++announced;
  if (announced > 0) {
    EXPECT_GE(trials_with(scene.last_run(), "accepted").size(), announced);
  }
}

void expect_work_goes_on(const Scene& scene) {
  const Outcome again = scene.run();
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NEAR(again.json().at("best").at("speedup").get<double>(), 1.56, 0.03);
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->check_integrity().value_or("?"), "ok");
}

// No file may grow beyond the limit: a disk that fills up, without needing one.
TEST(DiskFull, LosesNothingThatWasAcknowledged) {
  const Scene whole;
  ASSERT_EQ(whole.run().code, 0);
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  int stopped = 0;
  for (const rlim_t limit : {20'000U, 100'000U, 200'000U, 300'000U, 400'000U}) {
    SCOPED_TRACE(limit);
    const Scene scene;
    rlimit little = usual;
    little.rlim_cur = limit;
    setrlimit(RLIMIT_FSIZE, &little);
    Running running = scene.start_run();
    setrlimit(RLIMIT_FSIZE, &usual);
    const Outcome outcome = running.finish();
    if (outcome.code != 0) {
      ++stopped;
      EXPECT_THAT(outcome.err, HasSubstr(scene.history().string()));
    }
    expect_nothing_lost(scene, outcome);
    expect_work_goes_on(scene);
  }
  EXPECT_GE(stopped, 3);
}

// A small file system below the history, the output or both.
class SmallDisk {
 public:
  explicit SmallDisk(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~SmallDisk() { umount2(folder_.c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mount_with(const std::string& size) const {
    return mount("autotuned-test", folder_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  bool grow_to(const std::string& size) const {
    return mount("autotuned-test", folder_.c_str(), "tmpfs", MS_REMOUNT,
                 ("size=" + size).c_str()) == 0;
  }

 private:
  std::filesystem::path folder_;
};

TEST(DiskFull, SmallFileSystemLosesNothingThatWasAcknowledged) {
  int stopped = 0;
  for (const char* size : {"16k", "64k", "128k", "192k", "256k", "320k", "448k"}) {
    SCOPED_TRACE(size);
    const Scene scene;
    std::filesystem::create_directories(scene.history().parent_path());
    const SmallDisk disk(scene.history().parent_path());
    if (!disk.mount_with(size)) GTEST_SKIP() << "mounting a file system is not permitted here";
    const Outcome outcome = scene.run();
    if (outcome.code != 0) {
      ++stopped;
      EXPECT_THAT(outcome.err, HasSubstr(scene.history().string()));
    }
    expect_nothing_lost(scene, outcome);
    ASSERT_TRUE(disk.grow_to("64m"));
    expect_work_goes_on(scene);
  }
  EXPECT_GE(stopped, 3);
}

}  // namespace
}  // namespace autotuned
