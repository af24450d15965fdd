// SPDX-License-Identifier: Apache-2.0
// What may be opened, how, and what is refused without being touched.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>

#include "storage/history.hpp"
#include "storage/location.hpp"
#include "storage/migrations.hpp"
#include "tests/base/full_disk.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/storage/damage.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matcher;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::chrono::milliseconds kShort{20};
constexpr const char* kForeign = "this SQLite database is not a history of autotuned";

class OpenTest : public ::testing::Test {
 protected:
  // Every file of the folder with its bytes.
  [[nodiscard]] std::map<std::string, std::string> content() const {
    std::map<std::string, std::string> files;
    for (const std::string& name : names_in(folder_.path()))
      files[name] = folder_.read(name);
    return files;
  }

  // Both ways of opening fail like this and leave the folder as it is, byte for byte.
  void expect_refused(ErrorKind kind, const Matcher<const std::string&>& what) const {
    const auto before = content();
    ASSERT_TRUE(before.contains("history.db"));
    for (const Access access : {Access::read_write, Access::read_only}) {
      const auto history = History::open(file_, access, kShort);
      ASSERT_FALSE(history);
      EXPECT_EQ(history.error().kind, kind) << history.error().message();
      EXPECT_THAT(history.error().what, what);
      EXPECT_EQ(history.error().where, file_);
      EXPECT_NE(history.error().remedy, "");
    }
    EXPECT_TRUE(content() == before);
  }

  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "history.db";
};

unsigned mode_of(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_mode & 0777U;
}

TEST_F(OpenTest, NewHistoryIsPrivate) {
  const auto file = folder_ / "a/b/history.db";
  const History history = open_with_run(file);
  EXPECT_EQ(mode_of(folder_ / "a"), 0700U);
  EXPECT_EQ(mode_of(folder_ / "a/b"), 0700U);
  for (const std::string& name : names_in(file.parent_path()))
    EXPECT_EQ(mode_of(file.parent_path() / name), 0600U) << name;
  EXPECT_EQ(history.path(), file);
}

TEST_F(OpenTest, NothingIsLeftBesideAClosedHistory) {
  static_cast<void>(open_with_run(file_));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("history.db"));
  EXPECT_EQ(History::open(file_, Access::read_only)->runs({}).value().size(), 1U);
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("history.db"));
}

TEST_F(OpenTest, WritesAreDurableAndTheFileIsOurs) {
  static_cast<void>(open_with_run(file_));
  SQLite::Database database(file_.string());
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getUInt(), migrations().size());
  EXPECT_EQ(database.execAndGet("PRAGMA application_id").getInt(), 0x4174756E);
}

TEST_F(OpenTest, ReadOnlyNeedsAHistory) {
  EXPECT_EQ(History::open(file_, Access::read_only).error().kind, ErrorKind::not_found);
  EXPECT_THAT(names_in(folder_.path()), ElementsAre());
  folder_.write("history.db", "");
  EXPECT_EQ(History::open(file_, Access::read_only).error().kind, ErrorKind::not_found);
}

TEST_F(OpenTest, EmptyFileBecomesAHistory) {
  folder_.write("history.db", "");
  EXPECT_TRUE(History::open(file_, Access::read_write));
  EXPECT_TRUE(History::open(file_, Access::read_only));
}

TEST_F(OpenTest, ReadOnlyCannotWrite) {
  static_cast<void>(open_with_run(file_));
  auto history = History::open(file_, Access::read_only).value();
  EXPECT_EQ(history.put_environment(sample_environment()).error().kind, ErrorKind::permission);
}

TEST_F(OpenTest, ALongNameOfARunIsNotToldWhole) {
  const History history = open_with_run(file_);
  const auto missing = history.run(std::string(5000, 'x'));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().what, "there is no run '" + std::string(60, 'x') + "…'");
}

TEST_F(OpenTest, SpecialNamesAreFiles) {
  for (const char* name : {":memory:", "a b?c#d%20é.db", "file:x.db"}) {
    const auto file = folder_ / name;
    static_cast<void>(open_with_run(file));
    EXPECT_TRUE(std::filesystem::exists(file)) << name;
    EXPECT_EQ(History::open(file, Access::read_only)->runs({}).value().size(), 1U) << name;
  }
}

TEST_F(OpenTest, FolderIsRefused) {
  EXPECT_EQ(History::open(folder_.path(), Access::read_write).error().kind, ErrorKind::invalid);
  EXPECT_EQ(History::open("", Access::read_write).error().kind, ErrorKind::invalid);
}

// A pipe would be waited for.
TEST_F(OpenTest, OtherThanRegularFilesAreRefused) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const std::filesystem::path link = folder_ / "link.db";
  std::filesystem::create_symlink(file_, link);
  for (const std::filesystem::path& file : {file_, link, std::filesystem::path("/dev/null")}) {
    for (const Access access : {Access::read_write, Access::read_only}) {
      const auto refused = History::open(file, access);
      ASSERT_FALSE(refused) << file;
      EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
      EXPECT_EQ(refused.error().what, "the history is not a regular file");
      EXPECT_EQ(refused.error().where, file);
    }
    EXPECT_EQ(History::open_to_import(file).error().kind, ErrorKind::invalid);
  }
}

TEST_F(OpenTest, FolderThatCannotBeMadeIsNamed) {
  folder_.write("file", "");
  const auto history = History::open(folder_ / "file/below/history.db", Access::read_write);
  ASSERT_FALSE(history);
  EXPECT_EQ(history.error().kind, ErrorKind::io) << history.error().message();
  EXPECT_THAT(history.error().where, StartsWith(folder_ / "file"));
}

TEST_F(OpenTest, NewerVersionIsRefused) {
  static_cast<void>(open_with_run(file_));
  run_sql(file_, "PRAGMA user_version = 99");
  expect_refused(ErrorKind::newer_version,
                 "the history has schema version 99, this program knows versions up to " +
                     std::to_string(migrations().size()));
}

// The newer program was killed: its version number is in the log alone, and both must stay.
TEST_F(OpenTest, NewerVersionInTheLogIsRefused) {
  static_cast<void>(open_with_run(file_));
  {
    SQLite::Database database(file_.string(), SQLite::OPEN_READWRITE);
    sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    database.exec("PRAGMA user_version = 99");
  }
  ASSERT_THAT(folder_.read("history.db-wal"), ::testing::Not(""));
  const auto before = content();
  for (const Access access : {Access::read_write, Access::read_only}) {
    EXPECT_EQ(History::open(file_, access).error().kind, ErrorKind::newer_version);
  }
  EXPECT_TRUE(content().at("history.db") == before.at("history.db"));
  EXPECT_TRUE(content().at("history.db-wal") == before.at("history.db-wal"));
}

TEST_F(OpenTest, ForeignDatabasesAreRefused) {
  run_sql(file_, "CREATE TABLE bookmarks (url TEXT)");
  expect_refused(ErrorKind::corrupt, kForeign);
}

// Reading this one never ends.
TEST_F(OpenTest, ViewsAndVirtualTablesAreRefused) {
  const std::string endless =
      "PRAGMA foreign_keys = OFF; CREATE VIEW findings AS WITH RECURSIVE n (i) AS "
      "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS run_id FROM n";
  for (const std::string& sql :
       {"DROP TABLE findings; " + endless, std::string("CREATE VIEW other AS SELECT * FROM runs"),
        std::string("PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('table', "
                    "'other', 'other', 0, 'CREATE VIRTUAL TABLE other USING unknown(text)')")}) {
    std::filesystem::remove(file_);
    static_cast<void>(open_with_run(file_));
    run_sql(file_, sql);
    expect_refused(ErrorKind::corrupt, kForeign);
  }
}

// It would run with what we write.
TEST_F(OpenTest, TriggersAreRefused) {
  static_cast<void>(open_with_run(file_));
  run_sql(file_, "CREATE TRIGGER other AFTER UPDATE ON runs BEGIN DELETE FROM trials; END");
  expect_refused(ErrorKind::corrupt, kForeign);
}

// Somebody else makes it while we have the history open.
TEST_F(OpenTest, TriggersThatAreMadeLaterDoNotRun) {
  History history = open_with_run(file_);
  must(history.put_trial(sample_run().id, sample_trial()));
  run_sql(file_, "CREATE TRIGGER other AFTER UPDATE ON runs BEGIN DELETE FROM trials; END");
  RunRow run = sample_run();
  run.error = "changed";
  must(history.update_run(run));
  EXPECT_EQ(history.run("last").value().error, "changed");
  EXPECT_EQ(history.trials(sample_run().id).value().size(), 1U);
}

TEST_F(OpenTest, ForeignDatabasesWithALogAreRefused) {
  run_sql(file_, "PRAGMA journal_mode = WAL; PRAGMA application_id = 7; CREATE TABLE t (x)");
  expect_refused(ErrorKind::corrupt, kForeign);
}

TEST_F(OpenTest, ForeignEmptyDatabaseIsRefused) {
  run_sql(file_, "PRAGMA user_version = 3");
  expect_refused(ErrorKind::corrupt, kForeign);
}

TEST_F(OpenTest, FileThatIsNoDatabaseIsRefused) {
  // SQLite takes a file of one byte for an empty one.
  for (const std::size_t size : {1U, 100U, 10'000U}) {
    const std::string text(size, 'x');
    folder_.write("history.db", text);
    expect_refused(ErrorKind::corrupt, HasSubstr("file is not a database"));
  }
}

TEST_F(OpenTest, TruncatedHistoryIsRefused) {
  static_cast<void>(open_with_run(file_));
  const std::string whole = folder_.read("history.db");
  const std::string half = whole.substr(0, whole.size() / 2);
  folder_.write("history.db", half);
  for (const Access access : {Access::read_write, Access::read_only}) {
    EXPECT_EQ(History::open(file_, access).error().kind, ErrorKind::corrupt);
    EXPECT_TRUE(folder_.read("history.db") == half);
  }
}

// The page is needed by one table only, so that calls about others go on.
TEST_F(OpenTest, DamagedPageIsFoundWhoeverNeedsIt) {
  {
    History history = open_with_run(file_);
    must(history.put_trial(sample_run().id, sample_trial()));
    must(history.put_block({sample_run().id, 1}, sample_block()));
    EXPECT_TRUE(history.check_pages());
  }
  const std::string bytes = damage_table(file_, "blocks");
  const auto history = History::open(file_, Access::read_only);
  ASSERT_TRUE(history) << history.error().message();
  EXPECT_EQ(history->runs({}).value().size(), 1U);
  const auto checked = history->check_pages();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(checked.error().what,
              AllOf(StartsWith("the history is damaged: "), HasSubstr("age ")));
  EXPECT_THAT(checked.error().what, Not(HasSubstr("\n")));
  EXPECT_THAT(checked.error().remedy, HasSubstr(".recover"));
  // It says where, although the references of the damaged table cannot be followed.
  EXPECT_THAT(history->check_integrity().value().damage, HasSubstr("age "));
  EXPECT_TRUE(folder_.read("history.db") == bytes);
}

TEST_F(OpenTest, DamagedPageIsRefusedToWhoeverWrites) {
  EXPECT_EQ(History::open_to_write(file_, Missing::refuse).error().kind, ErrorKind::not_found);
  EXPECT_THAT(names_in(folder_.path()), ElementsAre());
  EXPECT_TRUE(History::open_to_write(file_)) << "a new one is made";
  static_cast<void>(open_with_run(file_));
  EXPECT_TRUE(History::open_to_write(file_));
  const std::string bytes = damage_table(file_, "blocks");
  const auto history = History::open_to_write(file_);
  ASSERT_FALSE(history);
  EXPECT_EQ(history.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(history.error().message(),
              AllOf(HasSubstr("the history is damaged: "), HasSubstr(".recover")));
  EXPECT_TRUE(folder_.read("history.db") == bytes);
}

// Bringing it up to date would be the first thing to write.
TEST_F(OpenTest, DamagedHistoryOfAnEarlierVersionStaysOne) {
  std::filesystem::copy_file(tests::source_folder() / "tests/storage/data/v2.db", file_);
  const std::string bytes = damage_table(file_, "blocks");
  EXPECT_EQ(History::open_to_write(file_).error().kind, ErrorKind::corrupt);
  EXPECT_TRUE(folder_.read("history.db") == bytes);
}

TEST_F(OpenTest, MissingReferenceIsToldAlone) {
  {
    History history = open_with_run(file_);
    must(history.put_trial(sample_run().id, sample_trial()));
    EXPECT_EQ(history.check_integrity().value().text(), "ok");
  }
  {
    SQLite::Database database(file_.string(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA foreign_keys = OFF");
    database.exec("DELETE FROM runs");
  }
  const auto history = History::open(file_, Access::read_only);
  ASSERT_TRUE(history) << history.error().message();
  const Integrity found = history->check_integrity().value();
  EXPECT_EQ(found.damage, "");
  EXPECT_THAT(found.missing_references,
              ElementsAre("a row of trials refers to a missing row of runs"));
  EXPECT_EQ(found.text(), found.missing_references[0]);
}

TEST_F(OpenTest, LockedHistoryIsBusy) {
  History history = open_with_run(file_);
  SQLite::Database other(file_.string(), SQLite::OPEN_READWRITE);
  other.exec("BEGIN IMMEDIATE");
  auto blocked = History::open(file_, Access::read_write, kShort);
  ASSERT_TRUE(blocked) << blocked.error().message();
  const auto put = blocked->put_environment(sample_environment());
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::busy);
  EXPECT_EQ(put.error().where, file_);
  EXPECT_EQ(blocked->runs({}).value().size(), 1U) << "readers do not wait for a writer";
  other.exec("COMMIT");
  EXPECT_TRUE(blocked->put_environment(sample_environment()));
}

TEST_F(OpenTest, NewHistoryLockedByAnotherIsBusy) {
  folder_.write("history.db", "");
  SQLite::Database other(file_.string(), SQLite::OPEN_READWRITE);
  other.exec("BEGIN EXCLUSIVE");
  EXPECT_EQ(History::open(file_, Access::read_write, kShort).error().kind, ErrorKind::busy);
  EXPECT_EQ(History::open_to_write(file_, Missing::make, kShort).error().kind, ErrorKind::busy);
}

std::string outcome(const std::filesystem::path& file, Access access) {
  const auto history = History::open(file, access, kShort);
  if (!history) return std::string(to_string(history.error().kind));
  const auto runs = history->runs({});
  return runs ? std::to_string(runs->size()) + " runs" : runs.error().message();
}

TEST_F(OpenTest, ReadOnlyFileCanBeRead) {
  static_cast<void>(open_with_run(file_));
  ASSERT_EQ(::chmod(file_.c_str(), 0400), 0);
  const auto answer = as_ordinary_user(folder_.path(), [&] {
    return outcome(file_, Access::read_write) + ", " + outcome(file_, Access::read_only);
  });
  EXPECT_EQ(answer, "permission, 1 runs");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("history.db"));
}

TEST_F(OpenTest, ReadOnlyFolderCanBeRead) {
  static_cast<void>(open_with_run(file_));
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0500), 0);
  const auto answer = as_ordinary_user(folder_.path(), [&] {
    return outcome(file_, Access::read_write) + ", " + outcome(file_, Access::read_only) + ", " +
           outcome(folder_ / "new.db", Access::read_write);
  });
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0700), 0);
  EXPECT_EQ(answer, "permission, 1 runs, permission");
}

// SQLite makes files beside a history that is only read, too.
TEST_F(OpenTest, HistoryOnAFullDiskCanBeRead) {
  static_cast<void>(open_with_run(file_));
  std::string answer;
  {
    const FullDisk full(0);
    answer = outcome(file_, Access::read_only) + ", " + outcome(file_, Access::read_write) + ", " +
             outcome(file_, Access::read_only);
  }
  EXPECT_EQ(answer, "1 runs, disk_full, 1 runs");
  EXPECT_EQ(outcome(file_, Access::read_write), "1 runs");
}

// What the writer had stored is in the log alone, and there is no room to move it.
TEST_F(OpenTest, LogOfAKilledWriterOnAFullDiskIsReadAndStays) {
  static_cast<void>(open_with_run(file_));
  {
    SQLite::Database database(file_.string(), SQLite::OPEN_READWRITE);
    sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    database.exec("DELETE FROM runs");
  }
  std::filesystem::remove(folder_ / "history.db-shm");
  const std::string log = folder_.read("history.db-wal");
  ASSERT_NE(log, "");
  std::string answer;
  {
    const FullDisk full(0);
    answer = outcome(file_, Access::read_only);
  }
  EXPECT_EQ(answer, "0 runs");
  EXPECT_TRUE(folder_.read("history.db-wal") == log);
  EXPECT_EQ(outcome(file_, Access::read_only), "0 runs");
}

// The writer has made the files, so that a reader shares them.
TEST_F(OpenTest, HistoryInUseOnAFullDiskCanBeRead) {
  const History writer = open_with_run(file_);
  std::string answer;
  {
    const FullDisk full(0);
    answer = outcome(file_, Access::read_only);
  }
  EXPECT_EQ(answer, "1 runs");
}

TEST_F(OpenTest, UnreadableFileIsAQuestionOfPermission) {
  static_cast<void>(open_with_run(file_));
  ASSERT_EQ(::chmod(file_.c_str(), 0), 0);
  const auto answer = as_ordinary_user(folder_.path(), [&] {
    return outcome(file_, Access::read_write) + ", " + outcome(file_, Access::read_only);
  });
  EXPECT_EQ(answer, "permission, permission");
}

// The writer was killed, and its log can be neither replayed nor ignored.
TEST_F(OpenTest, ReadOnlyFolderWithALogIsAQuestionOfPermission) {
  static_cast<void>(open_with_run(file_));
  {
    SQLite::Database database(file_.string(), SQLite::OPEN_READWRITE);
    sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    database.exec("DELETE FROM runs");
  }
  std::filesystem::remove(folder_ / "history.db-shm");
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0500), 0);
  const auto answer =
      as_ordinary_user(folder_.path(), [&] { return outcome(file_, Access::read_only); });
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0700), 0);
  EXPECT_EQ(answer, "permission");
  EXPECT_EQ(outcome(file_, Access::read_only), "0 runs") << "the log was kept";
}

TEST(LocationTest, NetworkFileSystemsAreKnown) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(0xFF534D42), "CIFS");
  EXPECT_EQ(network_file_system(0x0BD00BD0), "Lustre");
  EXPECT_FALSE(network_file_system(0xEF53)) << "ext4";
  EXPECT_FALSE(network_file_system(0x01021994)) << "tmpfs";
  EXPECT_FALSE(network_file_system(0x65735546)) << "FUSE";
}

TEST(DefaultPathTest, FollowsTheEnvironment) {
  ASSERT_EQ(::setenv("AUTOTUNED_HISTORY", "some/file.db", 1), 0);
  EXPECT_EQ(History::default_path(), "some/file.db");
  ASSERT_EQ(::unsetenv("AUTOTUNED_HISTORY"), 0);
  ASSERT_EQ(::setenv("XDG_STATE_HOME", "/state", 1), 0);
  EXPECT_EQ(History::default_path(), "/state/autotuned/history.db");
  ASSERT_EQ(::setenv("XDG_STATE_HOME", "relative", 1), 0);
  ASSERT_EQ(::setenv("HOME", "/people/ada", 1), 0);
  EXPECT_EQ(History::default_path(), "/people/ada/.local/state/autotuned/history.db");
  ASSERT_EQ(::unsetenv("XDG_STATE_HOME"), 0);
  EXPECT_EQ(History::default_path(), "/people/ada/.local/state/autotuned/history.db");
  ASSERT_EQ(::unsetenv("HOME"), 0);
  EXPECT_THAT(History::default_path().string(),
              ::testing::EndsWith("/.local/state/autotuned/history.db"));
}

}  // namespace
}  // namespace autotuned::storage
