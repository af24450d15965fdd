// SPDX-License-Identifier: Apache-2.0
// Imports the runs of another history. The other file is copied first, into a database without a name, and the copy is brought up to
// date. So the other file does not change, other programs may write to it, and the rows have the columns of this version. The copy is
// attached, and SQL copies the rows from table to table, so that a column of a later migration needs no line here. A new table needs
// one (tests/storage/import_test.cpp compares).
#include <SQLiteCpp/Backup.h>
#include <sqlite3.h>

#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "storage/connection.hpp"
#include "storage/rows.hpp"
#include "storage/run_owners.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;
using Database = SQLite::Database;

enum class Taken {
  always,       // rows that runs share; a row with the same key here stays
  of_new_runs,  // rows of the runs that are imported
  if_newer,     // best configurations
};

struct ImportedTable {
  const char* name;
  Taken taken;
  const char* run = nullptr;  // of_new_runs: column with the id of the run
};

// Tables that other tables refer to come first.
constexpr std::array kImported = {
    ImportedTable{"environments", Taken::always},
    ImportedTable{"recipes", Taken::always},
    ImportedTable{"plugins", Taken::always},
    ImportedTable{"runs", Taken::of_new_runs, "id"},
    ImportedTable{"trials", Taken::of_new_runs, "run_id"},
    ImportedTable{"blocks", Taken::of_new_runs, "run_id"},
    ImportedTable{"checks", Taken::of_new_runs, "run_id"},
    ImportedTable{"trainer_ends", Taken::of_new_runs, "run_id"},
    ImportedTable{"profiles", Taken::of_new_runs, "run_id"},
    ImportedTable{"findings", Taken::of_new_runs, "run_id"},
    ImportedTable{"plugin_answers", Taken::of_new_runs, "run_id"},
    ImportedTable{"best_configurations", Taken::if_newer},
};

constexpr const char* kNumber = "sequence";

// The plugin has a different number here.
constexpr const char* kPluginHere =
    "(SELECT here.sequence FROM imported.plugins AS there JOIN main.plugins AS here"
    " ON here.name = there.name AND here.version = there.version AND here.sha256 = there.sha256"
    " WHERE there.sequence = source.plugin)";

// A copy of the other history, attached as `imported` beside `main`. Its file has no name and disappears with the process, however
// the process ends.
class Attached {
 public:
  Attached(Database& database, Database& copy) : database_(database) {
    database_.exec("ATTACH '' AS imported");
    code_ = SQLite::Backup(database_, "imported", copy, "main").executeStep(-1);
  }
  ~Attached() { sqlite3_exec(database_.getHandle(), "DETACH imported", nullptr, nullptr, nullptr); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  [[nodiscard]] bool is_whole() const { return code_ == SQLITE_DONE; }

 private:
  Database& database_;
  int code_ = SQLITE_ERROR;
};

std::vector<std::string> columns_of(const Database& database, const char* table) {
  auto listed = prepare(database, "SELECT name FROM pragma_table_info(?, 'main')", {text(table)});
  std::vector<std::string> columns;
  while (listed.executeStep())
    columns.push_back(listed.getColumn(0).getString());
  return columns;
}

// The number that is added to the numbers of a table's imported rows, so that they are unique and stay in order.
std::string shift_of(const Database& database, const char* table) {
  auto last =
      prepare(database, std::string("SELECT coalesce(max(sequence), 0) FROM main.") + table, {});
  return std::to_string(last.executeStep() ? last.getColumn(0).getInt64() : 0);
}

// SQL for the columns that get a new value here, by "table.column".
using Renumbered = std::map<std::string, std::string>;

Renumbered renumbered(const Database& database) {
  Renumbered columns;
  for (const char* table :
       {"runs", "checks", "trainer_ends", "profiles", "findings", "plugin_answers"})
    columns[std::string(table) + "." + kNumber] = "source.sequence + " + shift_of(database, table);
  columns["findings.profile"] = "source.profile + " + shift_of(database, "profiles");
  columns["plugin_answers.plugin"] = kPluginHere;
  return columns;
}

std::string import_sql(const Database& database, const ImportedTable& table,
                       const Renumbered& numbers) {
  std::string into;
  std::string from;
  bool is_numbered = false;
  for (const std::string& column : columns_of(database, table.name)) {
    const bool is_number = column == kNumber;
    // Rows that several runs share get the next free number.
    if (is_number && table.taken == Taken::always) continue;
    is_numbered = is_numbered || is_number;
    const auto other = numbers.find(std::string(table.name) + "." + column);
    into.append(into.empty() ? "" : ", ").append(column);
    from.append(from.empty() ? "" : ", ")
        .append(other == numbers.end() ? "source." + column : other->second);
  }
  const std::string name = table.name;
  std::string sql = std::string(table.taken == Taken::always ? "INSERT OR IGNORE" : "INSERT") +
                    " INTO main." + name + " (" + into + ") SELECT " + from + " FROM imported." +
                    name + " AS source";
  if (table.taken == Taken::of_new_runs) {
    sql += std::string(" WHERE source.") + table.run + " IN (SELECT value FROM json_each(?1))";
  } else if (table.taken == Taken::if_newer) {
    // A run that a process still works on is left out, with everything that it has found so far.
    sql +=
        " WHERE source.run_id IN (SELECT id FROM main.runs)"
        " ON CONFLICT (recipe_hash, environment_key) DO UPDATE SET run_id = excluded.run_id";
    for (const std::string& column : columns_of(database, table.name)) {
      if (column == "recipe_hash" || column == "environment_key" || column == "run_id") continue;
      sql += ", " + column + " = excluded." + column;
    }
    sql += " WHERE excluded.updated_unix_ns > best_configurations.updated_unix_ns";
  }
  if (is_numbered) sql += std::string(" ORDER BY source.") + kNumber;
  return sql;
}

// A run that another machine has continued has got further there: it has ended, or has more trials, or a later end.
constexpr const char* kRunsSql = R"sql(
SELECT there.id AS id, there.sequence AS there_number, coalesce(here.sequence, 0) AS here_number,
  here.id IS NOT NULL AS is_known, there.state IN ('tuning', 'training') AS is_unfinished_there,
  coalesce(here.state IN ('tuning', 'training'), 0) AS is_unfinished_here,
  coalesce(here.state NOT IN ('finished', 'failed')
    AND (there.state IN ('finished', 'failed') OR there.ended_unix_ns > here.ended_unix_ns
      OR (SELECT count(*) FROM imported.trials WHERE run_id = there.id)
       > (SELECT count(*) FROM main.trials WHERE run_id = here.id)), 0) AS has_gone_on
FROM imported.runs AS there LEFT JOIN main.runs AS here ON here.id = there.id
ORDER BY there.sequence)sql";

struct Selection {
  ImportedRuns imported;
  std::vector<std::int64_t> places;  // places here of the renewed runs
};

// `other` and `own`: the files of the other history and of this one.
Selection select_runs(const Database& database, const fs::path& other, const fs::path& own) {
  Selection selected;
  ImportedRuns& imported = selected.imported;
  const RunOwners there(other);
  const RunOwners here(own);
  auto runs = prepare(database, kRunsSql, {});
  while (runs.executeStep()) {
    const Row row(runs);
    const bool is_known = row.boolean("is_known");
    const bool has_gone_on = row.boolean("has_gone_on");
    if (is_known && !has_gone_on) {
      ++imported.known;
    } else if ((row.boolean("is_unfinished_there") && there.has(row.integer("there_number"))) ||
               (row.boolean("is_unfinished_here") && here.has(row.integer("here_number")))) {
      ++imported.kept_at_work;
    } else if (is_known) {
      imported.renewed.push_back({row.text("id")});
      selected.places.push_back(row.integer("here_number"));
    } else {
      imported.runs.push_back({row.text("id")});
    }
  }
  return selected;
}

Value ids_of(const std::vector<RunId>& runs, const std::vector<RunId>& others = {}) {
  Json ids = Json::array();
  for (const auto* list : {&runs, &others}) {
    for (const RunId& run : *list)
      ids.push_back(run.text);
  }
  return json_text(ids);
}

// Their rows are inserted again in this transaction. Until then a best configuration may refer to them.
void remove_runs(Database& database, const std::vector<RunId>& runs) {
  if (runs.empty()) return;
  database.exec("PRAGMA defer_foreign_keys = ON");
  for (const ImportedTable& table : kImported) {
    if (table.taken != Taken::of_new_runs) continue;
    prepare(database,
            std::string("DELETE FROM main.") + table.name + " WHERE " + table.run +
                " IN (SELECT value FROM json_each(?1))",
            {ids_of(runs)})
        .exec();
  }
}

// An id becomes part of file names, and is printed unchanged.
Result<void> check_ids(const Database& copy, const fs::path& file) {
  constexpr std::size_t kMaxShown = 80;
  auto runs = prepare(copy, "SELECT id FROM runs ORDER BY sequence", {});
  while (runs.executeStep()) {
    const std::string id = Row(runs).text("id");
    if (is_run_id(id)) continue;
    return tl::unexpected(corrupt_error(
        "the history is damaged: '" + printable(id.substr(0, kMaxShown)) + "' is no id of a run",
        file));
  }
  return {};
}

// A value of another type would stop whatever reads the row here.
Result<void> check_stored_configurations(const Database& copy, const fs::path& file) {
  struct Place {
    const char* table;
    std::vector<const char*> columns;
  };
  const std::array places = {
      Place{"runs", {"starting_configuration", "best_configuration"}},
      Place{"trials", {"reference_configuration", "change"}},
      Place{"best_configurations", {"configuration"}},
  };
  for (const Place& place : places) {
    auto rows = prepare(copy, std::string("SELECT * FROM ") + place.table, {});
    while (rows.executeStep()) {
      const Row row(rows);
      try {
        for (const char* const column : place.columns)
          static_cast<void>(row.configuration(column));
        if (row.has("training")) check_configurations(row.json("training"));
      } catch (const DamagedRow& damage) {
        return fail(ErrorKind::corrupt,
                    printable("the history is damaged (table " + std::string(place.table) + ", " +
                              row.key() + "): " + damage.what()),
                    file,
                    "remove or correct this row in a copy of the file, and import the copy; "
                    "nothing was imported");
      }
    }
  }
  return {};
}

// A snapshot of a history that may be in use, checked and brought up to date.
Result<void> copy_history(Database& from, Database& copy, const fs::path& file) {
  if (SQLite::Backup(copy, from).executeStep(-1) != SQLITE_DONE) {
    return fail(ErrorKind::busy, "the history is locked", file, "give the command again later");
  }
  const std::string findings = integrity_of(copy).text();
  if (findings != "ok") {
    return tl::unexpected(corrupt_error("the history is damaged: " + findings, file));
  }
  if (auto migrated = migrate(copy, file); !migrated) return migrated;
  if (auto checked = check_ids(copy, file); !checked) return checked;
  return check_stored_configurations(copy, file);
}

}  // namespace

std::vector<std::string> History::imported_tables() {
  std::vector<std::string> names;
  for (const ImportedTable& table : kImported)
    names.emplace_back(table.name);
  return names;
}

Result<History> History::open_to_import(const fs::path& file) {
  auto other = open(file, Access::read_only);
  if (other) return other;
  Error refused = other.error();
  if (refused.kind == ErrorKind::unsupported) {
    refused.remedy =
        "copy it to a local disk when no program uses it, with its -wal file if there is one, and "
        "import the copy";
  } else if (refused.kind == ErrorKind::not_found) {
    refused.remedy = "name the history of another machine or job";
  }
  return tl::unexpected(std::move(refused));
}

Result<ImportedRuns> History::import_from(const History& other) {
  const fs::path& file = other.path();
  std::error_code error;
  if (fs::equivalent(file, path(), error)) {
    return fail(ErrorKind::invalid, "this is the history itself", file, "name another one");
  }
  // The file has no name: it is in the folder of SQLite's temporary files.
  std::unique_ptr<Database> copy;
  const auto copied =
      other.connection_->read("copy the history", [&](Database& from) -> Result<void> {
        copy = std::make_unique<Database>("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
        return copy_history(from, *copy, file);
      });
  if (!copied) return tl::unexpected(copied.error());

  std::unique_ptr<Attached> attached;
  const auto ready = connection_->read("import a history", [&](Database& database) -> Result<void> {
    attached = std::make_unique<Attached>(database, *copy);
    if (attached->is_whole()) return {};
    return fail(ErrorKind::busy, "the copy of the history is locked", file);
  });
  if (!ready) return tl::unexpected(ready.error());
  return connection_->write("import a history", [&](Database& database) -> Result<ImportedRuns> {
    Selection selected = select_runs(database, file, path());
    ImportedRuns& imported = selected.imported;
    // Before rows are removed, so that their numbers are not used again.
    const Renumbered numbers = renumbered(database);
    remove_runs(database, imported.renewed);
    for (const ImportedTable& table : kImported) {
      std::vector<Value> values;
      if (table.taken == Taken::of_new_runs)
        values.push_back(ids_of(imported.runs, imported.renewed));
      const int rows = prepare(database, import_sql(database, table, numbers), values).exec();
      if (std::string_view(table.name) == "trials") imported.trials = rows;
      if (table.taken == Taken::if_newer) imported.best = rows;
    }
    for (std::size_t i = 0; i < selected.places.size(); ++i) {
      update(database, "runs", {{kNumber, integer(selected.places[i])}}, "id = ?",
             {text(imported.renewed[i].text)});
    }
    return imported;
  });
}

}  // namespace autotuned::storage
