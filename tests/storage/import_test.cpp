// SPDX-License-Identifier: Apache-2.0
// What one history takes over from another.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/storage/damage.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr const char* kOurs = "r-20261121-aaaaaa";
constexpr const char* kTheirs = "r-20261122-bbbbbb";

std::vector<std::string> tables_of(const std::filesystem::path& file) {
  const SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
  SQLite::Statement statement(database,
                              "SELECT name FROM sqlite_schema WHERE type = 'table'"
                              " AND name NOT LIKE 'sqlite_%'");
  std::vector<std::string> names;
  while (statement.executeStep())
    names.push_back(statement.getColumn(0).getString());
  return names;
}

// Every row of every table as text, sorted, with its number where `with_numbers`.
std::map<std::string, std::vector<std::string>> content_of(const std::filesystem::path& file,
                                                           bool with_numbers = true) {
  std::map<std::string, std::vector<std::string>> content;
  const SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
  for (const std::string& table : tables_of(file)) {
    SQLite::Statement rows(database, "SELECT * FROM " + table);
    std::vector<std::string>& texts = content[table];
    while (rows.executeStep()) {
      std::string text;
      for (int i = 0; i < rows.getColumnCount(); ++i) {
        const std::string name = rows.getColumn(i).getName();
        const bool is_number = name == "sequence" || (table == "findings" && name == "profile") ||
                               (table == "plugin_answers" && name == "plugin");
        if (is_number && !with_numbers) continue;
        text += name + "=" + rows.getColumn(i).getString() + "|";
      }
      texts.push_back(text);
    }
    std::ranges::sort(texts);
  }
  return content;
}

// A row in every table.
void fill(const std::filesystem::path& file, const std::string& id, const std::string& plugin) {
  History history = open_with_run(file, id);
  const RunId run{id};
  RunRow row = sample_run(id);
  row.state = RunState::finished;
  must(history.update_run(row));
  must(history.put_trial(run, sample_trial(1)));
  must(history.put_trial(run, sample_trial(2)));
  must(history.put_block({run, 1}, sample_block(1)));
  must(history.put_block({run, 2}, sample_block(2)));
  CheckRecord check;
  check.risk = "exact";
  check.detail = "of " + id;
  must(history.put_check({run, 1}, check));
  must(history.put_trainer_end({run, 2}, TrainerEnd{}));
  const std::vector<FindingRecord> findings = {sample_finding("of_" + id)};
  must(history.put_profile(run, row.starting, {{"of", id}}, Json::object(), Json::array(), 1,
                           findings));
  must(history.put_plugin_asked(run, {.plugin = "shared", .version = "1", .sha256 = "00"}));
  must(history.put_plugin_asked(run, {.plugin = plugin, .version = "1", .sha256 = "11"}));
  must(history.put_plugin_answered(run, plugin, "of " + id, false));
}

BestRow best_of(const std::string& id, std::int64_t updated_unix_ns) {
  return {.recipe_hash = "h1",
          .environment_key = "e1",
          .run = RunId{id},
          .best = sample_run().best,
          .speedup = {.ratio = 2.0, .low = 1.9, .high = 2.1, .pairs = 5},
          .updated_unix_ns = updated_unix_ns};
}

class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fill(ours_, kOurs, "mine");
    fill(theirs_, kTheirs, "yours");
  }

  [[nodiscard]] Result<ImportedRuns> take_over() const {
    auto history = History::open(ours_, Access::read_write);
    if (!history) return tl::unexpected(history.error());
    const auto other = History::open_to_import(theirs_);
    if (!other) return tl::unexpected(other.error());
    return history->import_from(*other);
  }
  void put_best(const std::filesystem::path& file, const BestRow& best) const {
    must(History::open(file, Access::read_write)->put_best(best));
  }
  // Nothing is imported, and both files stay what they are.
  void expect_refused(ErrorKind kind, const std::string& what) const {
    const auto before = content_of(ours_);
    const std::string bytes = folder_.read("theirs.db");
    const auto refused = take_over();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, kind) << refused.error().message();
    EXPECT_THAT(refused.error().what, HasSubstr(what));
    EXPECT_EQ(refused.error().where, theirs_);
    EXPECT_EQ(content_of(ours_), before);
    EXPECT_EQ(folder_.read("theirs.db"), bytes);
  }

  TemporaryFolder folder_;
  const std::filesystem::path ours_ = folder_ / "history.db";
  const std::filesystem::path theirs_ = folder_ / "theirs.db";
};

// A new table has to be added to storage/history_import.cpp, and to fill() here.
TEST_F(ImportTest, KnowsEveryTable) {
  EXPECT_THAT(History::imported_tables(), UnorderedElementsAreArray(tables_of(ours_)));
  put_best(theirs_, best_of(kTheirs, 1));
  for (const auto& [table, rows] : content_of(theirs_))
    EXPECT_THAT(rows, ::testing::Not(IsEmpty())) << "fill() leaves out " << table;
}

TEST_F(ImportTest, TakesOverEveryRow) {
  put_best(theirs_, best_of(kTheirs, 7));
  const auto imported = take_over();
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_THAT(imported->runs, ElementsAre(RunId{kTheirs}));
  EXPECT_EQ(imported->trials, 2);
  EXPECT_EQ(imported->best, 1);
  EXPECT_EQ(imported->known, 0);
  EXPECT_THAT(imported->renewed, IsEmpty());

  const auto all = content_of(ours_, false);
  for (const auto& [table, rows] : content_of(theirs_, false)) {
    for (const std::string& row : rows)
      EXPECT_THAT(all.at(table), ::testing::Contains(row)) << table;
  }
  const History history = History::open(ours_, Access::read_only).value();
  EXPECT_EQ(history.check_integrity().value().text(), "ok");
  EXPECT_EQ(history.run("last")->id.text, kTheirs);
  EXPECT_EQ(text_of(history.run(kTheirs).value()),
            text_of(History::open(theirs_, Access::read_only)->run(kTheirs).value()));
}

// Another machine may have an older program: what its sentences say is stored here.
TEST_F(ImportTest, NamesWhatAnOlderVersionOnlySays) {
  {
    History history = History::open(theirs_, Access::read_write).value();
    must(history.put_plugin_asked(RunId{kTheirs}, {.plugin = "old"}));
    must(
        history.put_plugin_answered(RunId{kTheirs}, "old", "is refused: of another version", true));
  }
  bring_back_to_version_13(theirs_);
  const auto imported = take_over();
  ASSERT_TRUE(imported) << imported.error().message();
  const auto answers =
      History::open(ours_, Access::read_only)->plugin_answers(RunId{kTheirs}).value();
  EXPECT_EQ(answers.front().kind, AnswerKind::asked);
  EXPECT_EQ(answers.back().kind, AnswerKind::refused);
}

// Both files count from 1; each row belongs to the same other rows as before.
TEST_F(ImportTest, RowsStillBelongTogether) {
  ASSERT_TRUE(take_over());
  const History history = History::open(ours_, Access::read_only).value();
  for (const char* id : {kOurs, kTheirs}) {
    const RunId run{id};
    const auto profiles = history.profiles(run).value();
    ASSERT_EQ(profiles.size(), 1U) << id;
    EXPECT_EQ(profiles[0].at("metrics").at("of"), id);
    ASSERT_EQ(profiles[0].at("findings").size(), 1U) << id;
    EXPECT_EQ(profiles[0].at("findings")[0].at("id"), std::string("of_") + id);
    const auto answers = history.plugin_answers(run).value();
    ASSERT_EQ(answers.size(), 2U) << id;
    EXPECT_EQ(answers[0].plugin, "shared");
    EXPECT_EQ(answers[1].plugin, id == kOurs ? "mine" : "yours");
    EXPECT_EQ(answers[1].outcome, std::string("of ") + id);
    EXPECT_EQ(history.checks({run, 1}).value().at(0).detail, std::string("of ") + id);
    EXPECT_EQ(history.blocks({run, 2}).value().size(), 1U);
    EXPECT_EQ(history.trainer_ends(run).value().size(), 1U);
  }
  EXPECT_EQ(content_of(ours_).at("plugins").size(), 3U) << "one of them is in both";
}

TEST_F(ImportTest, TwiceIsOnce) {
  put_best(theirs_, best_of(kTheirs, 7));
  ASSERT_TRUE(take_over());
  const auto once = content_of(ours_);
  const auto again = take_over();
  ASSERT_TRUE(again);
  EXPECT_THAT(again->runs, IsEmpty());
  EXPECT_EQ(again->trials, 0);
  EXPECT_EQ(again->best, 0);
  EXPECT_EQ(again->known, 1);
  EXPECT_EQ(content_of(ours_), once);
}

// A job that began with a copy of this history brings it back with its own runs.
TEST_F(ImportTest, TakesWhatACopyHasMore) {
  std::filesystem::remove(theirs_);
  ASSERT_TRUE(History::open(ours_, Access::read_only)->backup(theirs_, false));
  fill(theirs_, kTheirs, "yours");
  const auto imported = take_over();
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_THAT(imported->runs, ElementsAre(RunId{kTheirs}));
  EXPECT_EQ(imported->known, 1);
  EXPECT_EQ(content_of(ours_, false), content_of(theirs_, false));
}

TEST_F(ImportTest, KeepsTheNewerBest) {
  put_best(ours_, best_of(kOurs, 10));
  const auto run_of_best = [&] {
    return History::open(ours_, Access::read_only)->best("h1", "e1").value()->run.text;
  };
  put_best(theirs_, best_of(kTheirs, 9));
  EXPECT_EQ(take_over()->best, 0);
  EXPECT_EQ(run_of_best(), kOurs);
  put_best(theirs_, best_of(kTheirs, 11));
  EXPECT_EQ(take_over()->best, 1);
  EXPECT_EQ(run_of_best(), kTheirs);
}

// A job was stopped, its history was imported, and another job has continued the run.
TEST_F(ImportTest, RenewsARunThatHasGoneOnThere) {
  const std::string name = "r-20261123-cccccc";
  const RunId id{name};
  {
    History history = open_with_run(ours_, name);
    RunRow stopped = sample_run(name);
    stopped.state = RunState::cancelled;
    must(history.update_run(stopped));
    must(history.put_trial(id, sample_trial(1)));
  }
  put_best(ours_, best_of(name, 5));
  fill(ours_, "r-20261124-dddddd", "mine");
  std::filesystem::remove(theirs_);
  ASSERT_TRUE(History::open(ours_, Access::read_only)->backup(theirs_, false));
  EXPECT_EQ(take_over()->known, 3) << "nothing is new";
  {
    History theirs = History::open(theirs_, Access::read_write).value();
    RunRow finished = sample_run(name);
    finished.state = RunState::finished;
    must(theirs.update_run(finished));
    must(theirs.put_trial(id, sample_trial(2)));
    must(theirs.put_block({id, 2}, sample_block(1)));
  }
  const auto imported = take_over();
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_THAT(imported->runs, IsEmpty());
  EXPECT_THAT(imported->renewed, ElementsAre(id));
  EXPECT_EQ(imported->known, 2);
  EXPECT_EQ(content_of(ours_, false), content_of(theirs_, false));
  const History history = History::open(ours_, Access::read_only).value();
  EXPECT_EQ(history.run(name)->state, RunState::finished);
  EXPECT_EQ(history.run("last")->id.text, "r-20261124-dddddd") << "it has kept its place";
  EXPECT_EQ(history.check_integrity().value().text(), "ok");
  EXPECT_EQ(take_over()->known, 3);
}

TEST_F(ImportTest, KeepsARunThatHasGoneOnHere) {
  RunRow stopped = sample_run(kOurs);
  stopped.state = RunState::cancelled;
  must(History::open(ours_, Access::read_write)->update_run(stopped));
  std::filesystem::remove(theirs_);
  ASSERT_TRUE(History::open(ours_, Access::read_only)->backup(theirs_, false));
  must(History::open(ours_, Access::read_write)->put_trial(RunId{kOurs}, sample_trial(3)));
  const auto before = content_of(ours_);
  EXPECT_EQ(take_over()->known, 1);
  EXPECT_EQ(content_of(ours_), before);
}

// Half of it would be taken for all of it later.
TEST_F(ImportTest, LeavesOutARunThatIsAtWork) {
  History theirs = open_with_run(theirs_, "r-20261123-cccccc");  // in training
  put_best(theirs_, best_of("r-20261123-cccccc", 7));
  auto claim = theirs.claim(RunId{"r-20261123-cccccc"}).value();
  auto imported = take_over();
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_THAT(imported->runs, ElementsAre(RunId{kTheirs}));
  EXPECT_EQ(imported->kept_at_work, 1);
  EXPECT_EQ(imported->best, 0);
  claim.reset();
  imported = take_over();
  EXPECT_THAT(imported->runs, ElementsAre(RunId{"r-20261123-cccccc"}));
  EXPECT_EQ(imported->best, 1);
}

TEST_F(ImportTest, BringsEarlierVersionsUpToDate) {
  const std::filesystem::path v1 = tests::source_folder() / "tests/storage/data/v1.db";
  std::filesystem::copy_file(v1, theirs_, std::filesystem::copy_options::overwrite_existing);
  const std::string before = folder_.read("theirs.db");
  const auto imported = take_over();
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_THAT(imported->runs, ::testing::Not(IsEmpty()));
  EXPECT_EQ(folder_.read("theirs.db"), before) << "it stays of its version";
  EXPECT_EQ(History::open(ours_, Access::read_only)->check_integrity().value().text(), "ok");
}

TEST_F(ImportTest, RefusesWhatOpenRefuses) {
  run_sql(theirs_, "PRAGMA user_version = 99");
  expect_refused(ErrorKind::newer_version, "version 99");
  folder_.write("theirs.db", "a diary, not a database");
  expect_refused(ErrorKind::corrupt, "not a database");
  std::filesystem::remove(theirs_);
  const auto missing = take_over();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
}

TEST_F(ImportTest, RefusesDamagedPages) {
  damage_table(theirs_, "blocks");
  expect_refused(ErrorKind::corrupt, "damaged");
}

TEST_F(ImportTest, RefusesRowsThatLackAnother) {
  run_sql(theirs_, "PRAGMA foreign_keys = OFF; DELETE FROM recipes");
  expect_refused(ErrorKind::corrupt, "a row of ");
}

// They would name files, and be printed.
TEST_F(ImportTest, RefusesIdsThatNoRunHas) {
  for (const auto& [other, shown] :
       std::map<std::string, std::string>{{"../../../../tmp/x", "'../../../../tmp/x' is no id"},
                                          {"r-20261122-bbbbb\n", "'r-20261122-bbbbb?' is no id"},
                                          {"\x1b[2J", "'?[2J' is no id"},
                                          {"<script>", "'<script>' is no id"}}) {
    std::string sql = "PRAGMA foreign_keys = OFF; UPDATE runs SET id = '" + other + "'";
    for (const char* table : {"trials", "blocks", "checks", "trainer_ends", "profiles", "findings",
                              "plugin_answers", "best_configurations"})
      sql += std::string("; UPDATE ") + table + " SET run_id = '" + other + "'";
    run_sql(theirs_, sql);
    expect_refused(ErrorKind::corrupt, shown);
  }
}

// Commands here would stop at such a row.
TEST_F(ImportTest, RefusesConfigurationsThatCannotBeRead) {
  const std::vector<std::pair<std::string, std::string>> columns = {
      {"runs", "starting_configuration"},
      {"runs", "best_configuration"},
      {"trials", "reference_configuration"},
      {"trials", "change"},
      {"best_configurations", "configuration"}};
  put_best(theirs_, best_of(kTheirs, 7));
  const std::string bytes = folder_.read("theirs.db");
  for (const auto& [table, column] : columns) {
    folder_.write("theirs.db", bytes);
    run_sql(theirs_, "UPDATE " + table + " SET " + column + R"( = '{"batch_size": "x"}')");
    expect_refused(ErrorKind::corrupt, "(table " + table + ", ");
    expect_refused(ErrorKind::corrupt, "column " + column + ": batch_size: expected an integer");
  }
  folder_.write("theirs.db", bytes);
  run_sql(theirs_, R"(UPDATE runs SET training = '{"check": {"refused": {"batch_size": "x"}}}')");
  expect_refused(ErrorKind::corrupt, "column training: check.refused: batch_size");
}

TEST_F(ImportTest, RefusesATrigger) {
  run_sql(theirs_, "CREATE TRIGGER other AFTER UPDATE ON runs BEGIN DELETE FROM trials; END");
  expect_refused(ErrorKind::corrupt, "not a history");
}

TEST_F(ImportTest, RefusesItself) {
  const std::filesystem::path link = folder_ / "link.db";
  std::filesystem::create_symlink(ours_, link);
  History history = History::open(ours_, Access::read_write).value();
  for (const auto& file : {ours_, link}) {
    const auto refused = history.import_from(History::open_to_import(file).value());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  }
}

// Killed anywhere, it has taken over all or nothing, and leaves no file behind.
TEST_F(ImportTest, IsWholeOrNotAtAll) {
  {
    History theirs = History::open(theirs_, Access::read_write).value();
    for (int trial = 3; trial < 300; ++trial)
      must(theirs.put_trial(RunId{kTheirs}, sample_trial(trial)));
  }
  const std::vector<std::string> files = names_in(folder_.path());
  const auto before = content_of(ours_);
  constexpr int kKills = 80;
  constexpr useconds_t kLater = 500;
  int untouched = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const int child = start_child([&] { return take_over() ? 0 : 1; });
    ::usleep(static_cast<useconds_t>(kill) * kLater);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    static_cast<void>(wait_for(child));
    const History history = History::open(ours_, Access::read_only).value();
    ASSERT_EQ(history.check_integrity().value().text(), "ok");
    if (history.runs({}).value().size() == 1U) {
      ++untouched;
      ASSERT_EQ(content_of(ours_), before) << "kill " << kill;
    } else {
      ASSERT_EQ(history.trials(RunId{kTheirs}).value().size(), 299U) << "kill " << kill;
      break;
    }
  }
  EXPECT_GT(untouched, 0);
  ASSERT_TRUE(take_over());
  for (const std::string& name : names_in(folder_.path())) {
    if (name.ends_with("-wal") || name.ends_with("-shm")) continue;
    EXPECT_THAT(files, ::testing::Contains(name));
  }
}

}  // namespace
}  // namespace autotuned::storage
