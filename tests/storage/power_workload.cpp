// SPDX-License-Identifier: Apache-2.0
#include "tests/storage/power_workload.hpp"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/storage/power_vfs.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {

namespace {

const RunId kRun{"r-1"};

// How a run, its trial and its best configuration go on: each is replaced again and again.
Result<void> update_run(History& history, int number) {
  RunRow run = sample_run(kRun.text);
  run.state = number % 2 == 0 ? RunState::training : RunState::finished;
  run.ended_unix_ns = number;
  run.training = {{"steps", number}};
  run.error = std::string(static_cast<std::size_t>(number), 'e');
  return history.update_run(run);
}

Result<void> update_trial(History& history, int number) {
  TrialRecord trial = sample_trial();
  trial.verdict = number % 2 == 0 ? Verdict::accepted : Verdict::rejected;
  trial.reason = "after " + std::to_string(number) + " facts";
  trial.duration_ns = number;
  return history.put_trial(kRun, trial);
}

Result<void> update_best(History& history, int number) {
  return history.put_best({.recipe_hash = "h1",
                           .environment_key = "e1",
                           .run = kRun,
                           .best = sample_run().best,
                           .speedup = {},
                           .updated_unix_ns = number});
}

Result<void> put_block(History& history, int number) {
  // Some facts are larger than a page.
  TrialBlock block = sample_block(number);
  block.block.losses.assign(number % 3 == 0 ? 3000U : 3U, 0.125);
  return history.put_block({kRun, 1}, block);
}

// The fact of this number, from 1 on. What a history holds depends on the numbers alone.
Result<void> put_fact(History& history, int number) {
  switch (number) {
    case 1:
      return history.put_environment(sample_environment());
    case 2:
      return history.put_recipe(sample_recipe());
    case 3: {
      RunRow run = sample_run(kRun.text);
      run.state = RunState::tuning;
      return history.put_run(run);
    }
    case 4: {
      TrialRecord trial = sample_trial();
      trial.verdict = Verdict::running;
      return history.put_trial(kRun, trial);
    }
    case kLargeFact:
      // So large that the log is moved into the database.
      return history.put_profile(kRun, {}, Json(std::string(4'500'000, 'x')), {}, {}, 1);
    default:
      break;
  }
  switch (number % 6) {
    case 0:
      return update_run(history, number);
    case 2:
      return update_trial(history, number);
    case 4:
      return update_best(history, number);
    default:
      return put_block(history, number);
  }
}

// Everything that is in the history, as one number; nothing for a damaged one.
std::optional<std::size_t> content_of(const std::filesystem::path& file) {
  {
    const auto history = History::open(file, Access::read_write);
    if (!history || history->check_integrity().map(&Integrity::text).value_or("") != "ok")
      return std::nullopt;
  }
  const SQLite::Database database(file.string());
  std::vector<std::string> tables;
  SQLite::Statement names(database,
                          "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  while (names.executeStep())
    tables.push_back(names.getColumn(0).getString());
  std::size_t content = 0;
  const auto add = [&content](std::string_view text) {
    content = content * 31 + std::hash<std::string_view>()(text);
  };
  for (const std::string& table : tables) {
    add(table);
    // A whole table comes in the order of its keys.
    SQLite::Statement rows(database, "SELECT * FROM " + table);
    while (rows.executeStep()) {
      for (int column = 0; column < rows.getColumnCount(); ++column)
        add(rows.getColumn(column).isNull() ? "NULL" : rows.getColumn(column).getString());
    }
  }
  return content;
}

// After each number of facts, from 0 on, as it must be.
const std::vector<std::size_t>& contents() {
  static const std::vector<std::size_t> kContents = [] {
    const PowerVfs no_faults;  // and no waiting for a real disk
    const TemporaryFolder folder;
    const auto file = folder / "history.db";
    std::vector<std::size_t> contents = {content_of(file).value()};
    for (int number = 1; number <= kMaxFacts; ++number) {
      {
        auto history = History::open(file, Access::read_write);
        must(put_fact(history.value(), number));
      }
      contents.push_back(content_of(file).value());
    }
    return contents;
  }();
  return kContents;
}

}  // namespace

int store_facts(const std::filesystem::path& file, int most) {
  auto history = History::open(file, Access::read_write);
  int stored = 0;
  while (history && stored < most && put_fact(*history, stored + 1)) {
    ++stored;
    // Now and then the history is closed, which moves the log into the database and deletes it.
    if (stored % 11 != 0) continue;
    history = fail(ErrorKind::cancelled, "closed");
    history = History::open(file, Access::read_write);
  }
  return stored;
}

int facts_in(const std::filesystem::path& file) {
  const auto& expected = contents();
  const PowerVfs no_faults;
  const auto found = content_of(file);
  if (!found) return -1;
  const auto at = std::ranges::find(expected, *found);
  return at == expected.end() ? -1 : static_cast<int>(at - expected.begin());
}

int count_rows(const std::filesystem::path& file) {
  const PowerVfs no_faults;
  const auto history = History::open(file, Access::read_write);
  if (!history || history->check_integrity().map(&Integrity::text).value_or("") != "ok") return -1;
  const auto count = [&](const char* table) {
    return SQLite::Database(file.string())
        .execAndGet(std::string("SELECT count(*) FROM ") + table)
        .getInt();
  };
  return count("environments") + count("recipes") + count("runs") + count("trials") +
         count("blocks") + count("profiles");
}

std::uint64_t operations_of(int most) {
  const PowerVfs vfs;
  const TemporaryFolder folder;
  static_cast<void>(store_facts(folder / "history.db", most));
  return vfs.operations();
}

Cut cut_power_at(int most, std::uint64_t operation, std::uint64_t seed) {
  static_cast<void>(contents());  // needs a disk without faults
  const TemporaryFolder before;
  const TemporaryFolder after;
  Cut cut;
  {
    PowerVfs vfs;
    vfs.arm(Fault::power_loss, operation);
    cut.acknowledged = store_facts(before / "history.db", most);
    vfs.write_disk(after.path(), seed);
  }
  cut.found = facts_in(after / "history.db");
  return cut;
}

}  // namespace autotuned::storage
