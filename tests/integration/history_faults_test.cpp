// SPDX-License-Identifier: Apache-2.0
// A history that cannot be used, and a disk that is full: said clearly, and nothing is damaged.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "storage/history.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

void execute(const std::filesystem::path& file, sqlite3** database, const char* sql) {
  ASSERT_EQ(sqlite3_open(file.c_str(), database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(*database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(*database);
}

// Runs `sql` and closes the file.
void edit(const Scene& scene, const std::string& sql) {
  sqlite3* database = nullptr;
  execute(scene.history(), &database, sql.c_str());
  sqlite3_close(database);
}

// A run with this history ends before it measures, and leaves the file with what it held.
void expect_refused(const Scene& scene, const std::string& before) {
  const Outcome outcome = scene.run();
  Told told(scene, "history_faults");
  told.ends(1, "the run", outcome);
  told.add("its JSON", outcome.json().at("error"));
  EXPECT_EQ(scene.folder().read("state/history.db"), before);
  EXPECT_TRUE(scene.fake().requests("run").empty());
}

void expect_refused(const Scene& scene) {
  expect_refused(scene, scene.folder().read("state/history.db"));
}

TEST(HistoryFault, FileThatIsNoHistoryIsLeftAlone) {
  const Scene scene;
  scene.folder().write("state/history.db", std::string(5000, 'x'));
  expect_refused(scene);
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(HistoryFault, NewerOneIsLeftAlone) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  edit(scene, "PRAGMA user_version=99; PRAGMA wal_checkpoint(TRUNCATE)");
  scene.fake().forget_requests();
  expect_refused(scene);
}

TEST(HistoryFault, DamagedOneIsLeftAlone) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  std::string bytes = scene.folder().read("state/history.db");
  for (std::size_t i = 100; i < 400; ++i)
    bytes[i] = '\x7f';
  scene.folder().write("state/history.db", bytes);
  scene.fake().forget_requests();
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr(scene.history().string()));
  EXPECT_TRUE(scene.folder().read("state/history.db") == bytes);
  EXPECT_TRUE(scene.fake().requests("run").empty());
}

TEST(HistoryFault, LockedOneIsNamed) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  scene.fake().forget_requests();
  // To close the file again would give up this process's locks.
  const std::string before = scene.folder().read("state/history.db");
  sqlite3* database = nullptr;
  execute(scene.history(), &database, "BEGIN EXCLUSIVE");
  expect_refused(scene, before);
  sqlite3_close(database);
  EXPECT_EQ(scene.run({"--tune-only"}).code, 0);
}

TEST(HistoryFault, OneThatCannotBeWrittenIsNamed) {
  Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  scene.fake().forget_requests();
  chmod(scene.history().c_str(), 0400);
  scene.obey_permissions();
  expect_refused(scene);
  // Reading needs no more than that.
  EXPECT_EQ(scene.runs().size(), 1);
}

// A page of the blocks, which few commands read: every command warns, and none writes.
TEST(HistoryFault, DamagedPageIsToldByEveryCommand) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  const std::string recipe = scene.recipe().string();
  std::size_t page = 0;
  const auto take_page = [](void* found, int, char** texts, char**) {
    *static_cast<std::size_t*>(found) = std::stoul(texts[0]);
    return 0;
  };
  sqlite3* database = nullptr;
  execute(scene.history(), &database, "PRAGMA wal_checkpoint(TRUNCATE)");
  ASSERT_EQ(sqlite3_exec(database, "SELECT rootpage FROM sqlite_schema WHERE name = 'blocks'",
                         take_page, &page, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  constexpr std::size_t kPageBytes = 4096;
  std::string bytes = scene.folder().read("state/history.db");
  ASSERT_GE(bytes.size(), page * kPageBytes);
  bytes.replace((page - 1) * kPageBytes, kPageBytes, std::string(kPageBytes, '\0'));
  scene.folder().write("state/history.db", bytes);

  // SQLite says what is wrong with the page.
  const std::string damaged = scene.history().string() + ": the history is damaged";
  const std::vector<std::vector<std::string>> commands = {
      {"history"}, {"best"}, {"best", recipe}, {"explain", "last"}, {"show", "last"}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = scene.command(command);
    EXPECT_EQ(outcome.code, 0) << command.front() << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("warning: " + damaged)) << command.front();
  }
  // These need the page or would write.
  const std::vector<std::vector<std::string>> failing = {
      {"show", "last.1"},
      {"forget", recipe},
      {"history", "prune", "--keep-last", "0"},
      {"run", recipe, "--retune", "--tune-only", "--no-daemon"}};
  for (const std::vector<std::string>& command : failing) {
    const Outcome outcome = scene.command(command);
    EXPECT_EQ(outcome.code, 1) << command.front() << ": " << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(damaged)) << command.front();
  }
  EXPECT_THAT(scene.command({"doctor"}).out, HasSubstr("age " + std::to_string(page)));
  EXPECT_TRUE(scene.folder().read("state/history.db") == bytes);
}

// Somebody edited one row, or a sector of the disk has gone: commands about other rows go on, and name it.
TEST(HistoryFault, RowThatCannotBeReadCostsItselfOnly) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  const std::string recipe = scene.recipe().string();
  const std::string damage = "UPDATE best_configurations SET configuration = '{'";
  edit(scene, damage);
  Told told(scene, "history_faults");
  told.ends(1, "best", scene.command({"best", recipe}));
  const Outcome forgotten = ended(0, scene.command({"forget", recipe, "--json"}));
  EXPECT_EQ(forgotten.json().at("forgotten"), true);

  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  edit(scene, damage);
  const Outcome again = ended(0, scene.run({"--tune-only"}));
  told.lines("a run", again.err, "table best_configurations");
  EXPECT_EQ(again.json().at("trials").at(0).at("kind"), "proposal");
  EXPECT_EQ(scene.command({"best", recipe}).code, 0);

  // A trial of the newest run, and the whole row of the one before.
  const Json runs = scene.runs();
  const std::string newest = runs.at(0).at("run");
  const std::string before = runs.at(1).at("run");
  edit(scene, "UPDATE trials SET change = '[' WHERE number = 1 AND run_id = '" + newest +
                  "'; UPDATE runs SET training = '' WHERE id = '" + before + "'");
  const std::vector<std::vector<std::string>> commands = {
      {"show", newest}, {"explain", newest}, {"compare", newest, newest}, {"history"}, {"plugins"}};
  for (const std::vector<std::string>& command : commands)
    told.ends(0, command.front(), scene.command(command));
  told.ends(1, "show the other one", scene.command({"show", before}));
}

// Readers of a knob rely on its type.
TEST(HistoryFault, KnobOfAnotherTypeCostsItsRowOnly) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  const std::string first = scene.last_run().at("run");
  edit(scene,
       R"(UPDATE runs SET state = 'tuning', starting_configuration = '{"batch_size": "x"}')");
  const std::string html = (scene.folder() / "x.html").string();
  const std::vector<std::vector<std::string>> commands = {
      {"show", first}, {"explain", first}, {"export", first, "--html", html}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = scene.command(command);
    EXPECT_EQ(outcome.code, 1) << command.front() << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(first)) << command.front();
    EXPECT_THAT(outcome.err, HasSubstr("starting_configuration: batch_size")) << command.front();
  }
  const Outcome again = ended(0, scene.run({"--tune-only"}));
  EXPECT_THAT(again.err, HasSubstr("starting_configuration: batch_size"));
  EXPECT_NE(again.json().at("run"), first);

  const std::string copy = (scene.folder() / "copy.db").string();
  expect_code(0, scene.command({"history", "backup", copy}));
  const std::string other = (scene.folder() / "other.db").string();
  const Outcome refused = scene.command({"history", "import", copy, "--history", other});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("starting_configuration: batch_size"));

  edit(scene, R"(UPDATE best_configurations SET configuration = '{"batch_size": "x"}')");
  const Outcome best = scene.command({"best", scene.recipe().string()});
  EXPECT_EQ(best.code, 1);
  EXPECT_THAT(best.err, HasSubstr("table best_configurations"));
}

// Somebody has removed a row with other tools.
TEST(HistoryFault, RowThatIsMissingCostsThoseThatReferToIt) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  const std::string found =
      scene.command({"best", scene.recipe().string(), "--json"}).json().at("run");
  edit(scene, "PRAGMA foreign_keys = OFF; DELETE FROM runs WHERE id = '" + found + "'");

  Told told(scene, "history_faults");
  told.ends(0, "best", scene.command({"best"}));
  const Outcome doctor = ended(0, scene.command({"doctor", "--json"}));
  const Json findings = doctor.json().at("findings");
  // One for each table; which others have rows of the run depends on what else the machine did.
  for (const Json& finding : findings) {
    const auto text = finding.at("text").get<std::string>();
    if (text.find("a row of trials ") != std::string::npos) told.add("doctor", text);
  }
  const std::string copy = (scene.folder() / "copy.db").string();
  expect_code(0, scene.command({"history", "backup", copy}));
}

// What became of the run cannot be stored: the command says so, and what the history still has is gone on with.
TEST(HistoryFault, EndThatCannotBeStoredIsTold) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  sqlite3* database = nullptr;
  execute(scene.history(), &database,
          "CREATE INDEX refuse ON runs (abs(CASE state WHEN 'failed' THEN -9223372036854775807 - 1 "
          "ELSE 0 END))");
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"do", "error"}, {"kind", "internal"}, {"request", "run"}}};
  scene.fake().behave(behaviour);
  const Outcome outcome = ended(1, scene.run());
  const std::string run = scene.last_run().at("run");
  EXPECT_THAT(outcome.err, HasSubstr("the fake says internal"));
  Told(scene, "history_faults").lines("the end of it", outcome.err, "could not be stored");
  EXPECT_EQ(scene.last_run().at("state"), "tuning");
  ASSERT_EQ(sqlite3_exec(database, "DROP INDEX refuse", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  scene.fake().behave(Scene::fast_job());
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), run);
}

// A history of others may be read; it does not choose where files are written.
TEST(HistoryFault, IdThatNoRunHasNamesNoFolder) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  edit(scene, "UPDATE runs SET id = '../elsewhere'");
  const std::string board = (scene.folder() / "board").string();
  Told(scene, "history_faults")
      .ends(1, "../elsewhere", scene.command({"export", "last", "--tensorboard", board}));
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "elsewhere"));
}

// With the folder goes every acknowledged fact: nobody may believe that the run can be continued.
TEST(HistoryFault, OneThatIsDeletedDuringARunIsNamed) {
  const Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "train"}})};
  Running running = scene.start_run_until("\ntuned ");
  std::filesystem::remove_all(scene.history().parent_path());
  const Descriptor gate = scene.fake().open_gate();
  const Outcome outcome = ended(1, running.finish());
  Told(scene, "history_faults").lines("the run", outcome.err, "deleted or moved");
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("the same command continues run")));
  EXPECT_TRUE(std::filesystem::exists(scene.folder() / "out/model.pt"));
  EXPECT_TRUE(scene.all_ended());
}

TEST(HistoryFault, OutputFolderThatCannotBeWrittenIsNamed) {
  Scene scene;
  std::filesystem::create_directory(scene.folder() / "out");
  scene.obey_permissions();
  chmod((scene.folder() / "out").c_str(), 0500);
  expect_output_folder_refused(scene, "history_faults");
}

// What must hold after a run on a disk that was full at some moment, and after the next on one that is not.
void expect_nothing_lost(const Scene& scene, const Outcome& outcome) {
  EXPECT_TRUE(scene.all_ended());
  if (outcome.code != 0) {
    EXPECT_EQ(outcome.code, 1);
    for (const std::string& words : {std::string("error: "), scene.history().string()})
      EXPECT_THAT(outcome.err, HasSubstr(words));
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
  const Json again = result_of(scene.run());
  EXPECT_NEAR(again.at("best").at("speedup").get<double>(), 1.56, 0.03);
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->check_integrity().map(&storage::Integrity::text).value_or("?"), "ok");
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
    if (outcome.code != 0) ++stopped;
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
    if (outcome.code != 0) ++stopped;
    expect_nothing_lost(scene, outcome);
    ASSERT_TRUE(disk.grow_to("64m"));
    expect_work_goes_on(scene);
  }
  EXPECT_GE(stopped, 3);
}

// Until nothing fits any more: no byte, or no further file.
void fill(const std::filesystem::path& folder, bool with_files) {
  for (int i = 0; with_files; ++i) {
    if (!std::ofstream(folder / std::to_string(i))) return;
  }
  std::ofstream file(folder / "filling");
  const std::string block(4096, 'x');
  while (file << block << std::flush) {
  }
}

TEST(DiskFull, TheHistoryCanBeRead) {
  for (const bool with_files : {false, true}) {
    SCOPED_TRACE(with_files);
    const Scene scene;
    const std::filesystem::path folder = scene.history().parent_path();
    std::filesystem::create_directories(folder);
    const SmallDisk disk(folder);
    if (!disk.mount_with("8m,nr_inodes=64")) {
      GTEST_SKIP() << "mounting a file system is not permitted here";
    }
    const std::string run = result_of(scene.run()).at("run");
    fill(folder, with_files);
    EXPECT_THAT(ended(0, scene.command({"history"})).out, HasSubstr(run));
    for (const char* const command : {"show", "explain"})
      EXPECT_THAT(ended(0, scene.command({command, "last"})).out, HasSubstr(run)) << command;
    // It reads first, and must not stand in its own way.
    const Outcome pruned = ended(1, scene.command({"history", "prune", "--keep-last", "1"}));
    EXPECT_THAT(pruned.err, testing::Not(HasSubstr("another program")));
  }
}

TEST(DiskFull, AScriptTrainsToItsEnd) {
  int untuned = 0;
  for (const char* size : {"16k", "64k", "128k", "256k"}) {
    SCOPED_TRACE(size);
    Scene scene;
    std::filesystem::create_directory(scene.folder() / "startup");
    scene.set("AUTOTUNED_STARTUP=" + (scene.folder() / "startup").string());
    std::filesystem::create_directories(scene.history().parent_path());
    const SmallDisk disk(scene.history().parent_path());
    if (!disk.mount_with(size)) GTEST_SKIP() << "mounting a file system is not permitted here";
    const auto behaviour =
        scene.folder().write("behaviour.json", R"({"factors": {"optimizer.set_to_none=on": 1.4}})");
    const std::string script = tests::build_folder() / "tests/fake_script";
    const Outcome outcome = ended(0, scene.command({"run", "--", script, behaviour}));
    EXPECT_EQ(outcome.out, "the script reads: \nthe script trains on\n");
    if (outcome.err.find(" tuned: ") != std::string::npos) ++untuned;
    EXPECT_TRUE(scene.all_ended());
  }
  EXPECT_GE(untuned, 1);
}

}  // namespace
}  // namespace autotuned
