// SPDX-License-Identifier: Apache-2.0
// With ten thousand trials every query still goes through an index, and damage never crashes.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <random>

#include "storage/history.hpp"
#include "storage/run_owners.hpp"
#include "storage/run_query.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// 1,000 runs of ten trials each, copies of the sample rows.
void fill(const std::filesystem::path& file) {
  History history = open_with_run(file);
  for (int number = 1; number <= 10; ++number)
    must(history.put_trial(sample_run().id, sample_trial(number)));
  std::string sql =
      "BEGIN;"
      "CREATE TEMP TABLE one_run AS SELECT * FROM runs;"
      "CREATE TEMP TABLE ten_trials AS SELECT * FROM trials;"
      "DELETE FROM trials; DELETE FROM runs;";
  for (int i = 1; i <= 1000; ++i) {
    const std::string number = std::to_string(i);
    const std::string id = "'r-" + number + "'";
    sql += "UPDATE one_run SET sequence = " + number + ", started_unix_ns = " + number +
           ", id = " + id + "; INSERT INTO runs SELECT * FROM one_run;" +
           "UPDATE ten_trials SET run_id = " + id +
           "; INSERT INTO trials SELECT * FROM ten_trials;";
  }
  run_sql(file, sql + "COMMIT");
}

std::string plan_of(const std::filesystem::path& file, const RunQuery& query) {
  const SQLite::Database database(file.string());
  SQLite::Statement statement = prepare(database, "EXPLAIN QUERY PLAN " + query.sql, query.values);
  std::string plan;
  while (statement.executeStep())
    plan += statement.getColumn("detail").getString() + "\n";
  return plan;
}

TEST(QueryTest, UnfinishedRunsAreFoundByAnIndex) {
  const TemporaryFolder folder;
  static_cast<void>(open_with_run(folder / "history.db"));
  EXPECT_THAT(plan_of(folder / "history.db", {kUnfinishedSql, {}}),
              HasSubstr("COVERING INDEX runs_unfinished"));
}

TEST(QueryTest, ListingRunsUsesIndexes) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  fill(file);
  const std::vector<RunFilter> filters = {
      {},
      {.recipe = "fashion"},
      {.environment = "e1"},
      {.plugin = "num_workers"},
      {.verdict = Verdict::accepted},
      {.plugin = "num_workers", .verdict = Verdict::accepted, .since_unix_ns = 5},
  };
  const auto history = History::open(file, Access::read_only).value();
  for (const RunFilter& filter : filters) {
    const RunQuery query = run_query(filter);
    const std::string plan = plan_of(file, query);
    EXPECT_THAT(plan, HasSubstr("runs USING COVERING INDEX runs_by_")) << query.sql;
    EXPECT_THAT(plan, Not(HasSubstr("SCAN trials"))) << query.sql;
    EXPECT_THAT(plan, Not(HasSubstr("SCAN runs\n"))) << query.sql;
    EXPECT_THAT(plan, Not(HasSubstr("TEMP B-TREE"))) << query.sql << "\n" << plan;
    EXPECT_EQ(history.runs(filter).value().size(), 50U) << query.sql;
  }
  EXPECT_EQ(history.earlier_trials("e1", "h1", -1).value().size(), 10'000U);
}

// Reads whatever can be read. Errors are welcome, crashes and exceptions are not.
bool read_everything(const std::filesystem::path& file) {
  const auto history = History::open(file, Access::read_write);
  if (!history) return false;
  bool is_whole = history->check_integrity().value_or("") == "ok";
  const RunId run = sample_run().id;
  is_whole &= history->runs({}).has_value();
  is_whole &= history->trials(run).has_value();
  is_whole &= history->blocks({run, 1}).has_value();
  is_whole &= history->plugin_answers(run).has_value();
  is_whole &= history->profiles(run).has_value();
  is_whole &= history->best("h1", "e1").has_value();
  return is_whole;
}

TEST(DamageTest, ScatteredBytesNeverCrash) {
  const TemporaryFolder folder;
  const auto file = folder.write("history.db", "");
  const std::filesystem::path fixture = tests::source_folder() / "tests/storage/data/v1.db";
  const auto restore = [&] {
    std::filesystem::remove(folder / "history.db-wal");
    std::filesystem::remove(folder / "history.db-shm");
    std::filesystem::copy_file(fixture, file, std::filesystem::copy_options::overwrite_existing);
  };
  restore();
  ASSERT_TRUE(read_everything(file));
  std::mt19937 random(1);
  int damaged = 0;
  for (int round = 0; round < 200; ++round) {
    restore();
    std::string bytes = folder.read("history.db");
    ASSERT_FALSE(bytes.empty());
    for (unsigned i = 0; i < 1 + random() % 64; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    folder.write("history.db", bytes);
    if (!read_everything(file)) ++damaged;
  }
  EXPECT_GT(damaged, 20);
}

TEST(DamageTest, RowsThatWeCouldNotHaveWrittenAreCorrupt) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  must(open_with_run(file).put_trial(sample_run().id, sample_trial()));
  const auto history = History::open(file, Access::read_only).value();
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"verdict = 'splendid'", "splendid"},   {"change = '{'", "change"},
      {"change = '[1]'", "change"},           {"kind = ''", "kind"},
      {"pairs = 99999999999", "99999999999"},
  };
  for (const auto& [damage, named] : damages) {
    run_sql(file, "CREATE TABLE kept AS SELECT * FROM trials; UPDATE trials SET " + damage);
    const auto trials = history.trials(sample_run().id);
    ASSERT_FALSE(trials) << damage;
    EXPECT_EQ(trials.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(trials.error().what, HasSubstr(named));
    run_sql(file, "DELETE FROM trials; INSERT INTO trials SELECT * FROM kept; DROP TABLE kept");
    EXPECT_TRUE(history.trials(sample_run().id));
  }
}

}  // namespace
}  // namespace autotuned::storage
