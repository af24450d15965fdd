// SPDX-License-Identifier: Apache-2.0
// With ten thousand trials every query still goes through an index, and damage never crashes.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "storage/history.hpp"
#include "storage/run_owners.hpp"
#include "storage/run_query.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::AllOf;
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
  auto history = History::open(file, Access::read_write);
  if (!history) return false;
  bool is_readable = true;
  history->on_unreadable_row([&](const std::string&) { is_readable = false; });
  bool is_whole = history->check_integrity().map(&Integrity::text).value_or("") == "ok";
  const RunId run = sample_run().id;
  is_whole &= history->runs({}).has_value();
  is_whole &= history->trials(run).has_value();
  is_whole &= history->blocks({run, 1}).has_value();
  is_whole &= history->plugin_answers(run).has_value();
  is_whole &= history->profiles(run).has_value();
  is_whole &= history->best("h1", "e1").has_value();
  return is_whole && is_readable;
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

// One run with two trials, each with a block and a check, with a profile and its finding, an answer, the end of a trainer
// and a best configuration.
History open_full(const std::filesystem::path& file) {
  History history = open_with_run(file);
  const RunId run = sample_run().id;
  for (int number = 1; number <= 2; ++number) {
    must(history.put_trial(run, sample_trial(number)));
    must(history.put_block({run, number}, sample_block()));
    must(history.put_check({run, number},
                           {"numerics", false, 1, "cosine 0.3", {"fc.weight"}, 1, 2}));
  }
  const std::vector<FindingRecord> found = {sample_finding()};
  must(history.put_profile(run, {}, {}, Json::array(), Json::array(), 1, found));
  must(history.put_profile(run, {}, {}, Json::array(), Json::array(), 2));
  must(history.put_trainer_end({run, 0}, {}));
  must(history.put_best({.recipe_hash = "h1",
                         .environment_key = "e1",
                         .run = run,
                         .best = sample_run().best,
                         .speedup = {},
                         .updated_unix_ns = 5}));
  return history;
}

TEST(DamageTest, TrialsThatWeCouldNotHaveWrittenAreLeftOutAndTold) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  static_cast<void>(open_full(file));
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"verdict = 'splendid'", "splendid"},
      {"change = '{'", "change"},
      {"change = '[1]'", "change"},
      {"kind = ''", "kind"},
      {"pairs = 99999999999", "99999999999"},
      {R"(change = '{"loader.workers": "two"}')", "change"},
      {R"(change = '{"batch_size": [8]}')", "batch_size"},
  };
  for (const auto& [damage, named] : damages) {
    run_sql(file, "CREATE TABLE kept AS SELECT * FROM trials; UPDATE trials SET " + damage +
                      " WHERE number = 2");
    auto history = History::open(file, Access::read_only).value();
    std::vector<std::string> told;
    history.on_unreadable_row([&](const std::string& sentence) { told.push_back(sentence); });
    for (int again = 0; again < 2; ++again) {
      const auto trials = history.trials(sample_run().id);
      ASSERT_TRUE(trials) << damage;
      ASSERT_EQ(trials->size(), 1U) << damage;
      EXPECT_EQ(trials->front().number, 1);
    }
    EXPECT_EQ(history.last_trial_number(sample_run().id).value(), 2);
    ASSERT_EQ(told.size(), 1U) << damage;
    EXPECT_THAT(told.front(), AllOf(HasSubstr(file.string()), HasSubstr("table trials"),
                                    HasSubstr("run_id " + sample_run().id.text),
                                    HasSubstr("number 2"), HasSubstr(named)));
    run_sql(file,
            "UPDATE trials SET verdict = kept.verdict, change = kept.change, kind = kept.kind, "
            "pairs = kept.pairs FROM kept WHERE kept.number = trials.number; DROP TABLE kept");
    EXPECT_EQ(history.trials(sample_run().id).value().size(), 2U);
  }
}

TEST(DamageTest, RowOfEachTableCostsItselfOnly) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  static_cast<void>(open_full(file));
  const RunId run = sample_run().id;
  struct Damage {
    std::string table;
    std::string sql;
    std::function<bool(const History&)> is_left_out;
  };
  const std::vector<Damage> damages = {
      {"blocks", "UPDATE blocks SET losses = '{}' WHERE trial_number = 1",
       [&](const History& history) {
         return history.blocks({run, 1}).value().empty() &&
                history.blocks({run, 2}).value().size() == 1;
       }},
      {"checks", "UPDATE checks SET parameters = '7' WHERE trial_number = 1",
       [&](const History& history) {
         return history.checks({run, 1}).value().empty() &&
                history.checks({run, 2}).value().size() == 1;
       }},
      {"profiles", "UPDATE profiles SET metrics = '{' WHERE taken_unix_ns = 2",
       [&](const History& history) {
         const auto profiles = history.profiles(run).value();
         return profiles.size() == 1 && profiles.front().at("findings").size() == 1;
       }},
      {"trainer_ends", "UPDATE trainer_ends SET outcome = 'odd'",
       [&](const History& history) { return history.trainer_ends(run).value().empty(); }},
      {"environments", "UPDATE environments SET facts = ''",
       [](const History& history) {
         return !history.environment("e1").value() &&
                history.environments_with_best("h1").value().size() == 1;
       }},
      {"best_configurations", "UPDATE best_configurations SET configuration = '{'",
       [](const History& history) {
         return !history.best("h1", "e1").value() &&
                history.environments_with_best("h1").value().size() == 1;
       }},
  };
  auto history = History::open(file, Access::read_write).value();
  std::vector<std::string> told;
  history.on_unreadable_row([&](const std::string& sentence) { told.push_back(sentence); });
  for (const Damage& damage : damages) {
    run_sql(file, damage.sql);
    told.clear();
    EXPECT_TRUE(damage.is_left_out(history)) << damage.table;
    ASSERT_EQ(told.size(), 1U) << damage.table;
    EXPECT_THAT(told.front(), HasSubstr("table " + damage.table));
  }
  EXPECT_EQ(history.environments_with_best("h1").value().front().libtorch,
            sample_environment().libtorch);
  EXPECT_TRUE(history.forget_best("h1", "e1").value());
  EXPECT_TRUE(history.environments_with_best("h1").value().empty());
  EXPECT_EQ(history.trials(run).value().size(), 2U);
}

// Readers of a knob rely on its type: a value of another one would stop them.
TEST(DamageTest, KnobsOfAnotherTypeAreDamageAndUnknownOnesAreNot) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  auto history = open_full(file);
  std::vector<std::string> told;
  history.on_unreadable_row([&](const std::string& sentence) { told.push_back(sentence); });
  const std::vector<std::pair<std::string, std::string>> damages = {
      {R"(starting_configuration = '{"batch_size": "x"}')",
       R"(column starting_configuration: batch_size: expected an integer of at least 1, found "x")"},
      {R"(starting_configuration = '{"batch_size": 0}')", "starting_configuration: batch_size"},
      {R"(best_configuration = '{"cuda.graph": 1}')", "best_configuration: cuda.graph"},
      {R"(best_configuration = '{"env.A": true}')", "best_configuration: env.A"},
      {R"(training = '{"check": {"refused": {"precision.autocast": 16}}}')",
       "training: check.refused: precision.autocast"},
      {R"(training = '{"fallbacks": [{"configuration": {"batch_size": 1.5}}]}')",
       "training: fallbacks: batch_size"}};
  const RunRow whole = history.run("last").value();
  for (const auto& [damage, named] : damages) {
    run_sql(file, "UPDATE runs SET " + damage);
    told.clear();
    const auto run = history.run("last");
    ASSERT_FALSE(run) << damage;
    EXPECT_EQ(run.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(run.error().message(), AllOf(HasSubstr(whole.id.text), HasSubstr(named)));
    EXPECT_TRUE(history.runs({}).value().empty()) << damage;
    must(history.update_run(whole));
  }
  ASSERT_EQ(history.runs({}).value().size(), 1U);
  run_sql(file, R"(UPDATE runs SET starting_configuration = '{"a.plugin": "x", "newer": 1}')");
  EXPECT_TRUE(history.run("last"));
  run_sql(file, R"(UPDATE best_configurations SET configuration = '{"batch_size": "x"}')");
  told.clear();
  EXPECT_FALSE(history.best("h1", "e1").value());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told.front(), AllOf(HasSubstr("table best_configurations"), HasSubstr("batch_size")));
}

// What cannot be read cannot be gone on with: the same command begins anew.
TEST(DamageTest, UnfinishedRunWithAnotherTypeIsNotGoneOnWith) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  auto history = open_with_run(file, "r-1");
  const RunKey key{"h1", "e1", sample_run().plan, false};
  ASSERT_TRUE(history.unfinished_run(key).value());
  run_sql(file, R"(UPDATE runs SET starting_configuration = '{"batch_size": "x"}')");
  std::vector<std::string> told;
  history.on_unreadable_row([&](const std::string& sentence) { told.push_back(sentence); });
  EXPECT_FALSE(history.unfinished_run(key).value());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told.front(), AllOf(HasSubstr("id r-1"), HasSubstr("starting_configuration")));
}

TEST(DamageTest, RunCostsItselfOnly) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  auto history = open_with_run(file, "r-1");
  must(history.put_run(sample_run("r-2")));
  run_sql(file, "UPDATE runs SET best_configuration = '{' WHERE id = 'r-2'");
  std::vector<std::string> told;
  history.on_unreadable_row([&](const std::string& sentence) { told.push_back(sentence); });
  const auto runs = history.runs({}).value();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs.front().id.text, "r-1");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told.front(), HasSubstr("id r-2"));
  const RunRow sample = sample_run();
  EXPECT_FALSE(history.unfinished_run({"h1", "e1", sample.plan, false}).value());
  EXPECT_TRUE(history.run("r-1"));
  for (const char* name : {"r-2", "last"}) {
    const auto run = history.run(name);
    ASSERT_FALSE(run) << name;
    EXPECT_EQ(run.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(run.error().message(),
                AllOf(HasSubstr("r-2"), HasSubstr("best_configuration"), HasSubstr("prune")));
  }
  // If several runs match, the error has their names.
  EXPECT_EQ(history.run("r-").error().kind, ErrorKind::invalid);
  run_sql(file, "UPDATE runs SET state = 'odd' WHERE id = 'r-2'");
  EXPECT_TRUE(history.remove_run(RunId{"r-2"}).value());
  EXPECT_TRUE(history.run("last"));
}

}  // namespace
}  // namespace autotuned::storage
