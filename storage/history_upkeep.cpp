// SPDX-License-Identifier: Apache-2.0
// Copies a history, and makes it smaller.
#include <SQLiteCpp/Backup.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "storage/connection.hpp"
#include "storage/location.hpp"
#include "storage/run_owners.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;
using Database = SQLite::Database;

// The unfinished copy. It is in the folder of the target, so that a rename publishes it. The destructor removes it.
class Unpublished {
 public:
  // Makes a new, empty file with a unique name.
  static Result<Unpublished> make(const fs::path& target) {
    std::uint64_t random = 0;
    static_cast<void>(!::getrandom(&random, sizeof random, 0));
    fs::path file = target.parent_path() / (".autotuned-" + std::to_string(random) + ".partial");
    if (::mknod(file.c_str(), S_IFREG | 0600, 0) != 0) {
      return tl::unexpected(system_error(errno, "cannot write beside the copy", file));
    }
    return Unpublished(std::move(file));
  }
  ~Unpublished() {
    if (file_.empty()) return;
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
      std::error_code ignored;
      fs::remove(file_.string() + suffix, ignored);
    }
  }
  Unpublished(Unpublished&& other) noexcept : file_(std::exchange(other.file_, {})) {}
  Unpublished& operator=(Unpublished&&) = delete;
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;

  [[nodiscard]] const fs::path& file() const { return file_; }

 private:
  explicit Unpublished(fs::path file) : file_(std::move(file)) {}

  fs::path file_;
};

Result<void> check_target(const fs::path& source, const fs::path& target, bool may_replace) {
  std::error_code error;
  if (!target.has_filename() || fs::is_directory(target, error)) {
    return fail(ErrorKind::invalid, "the copy must be a file", target, "name a file");
  }
  if (fs::equivalent(source, target, error)) {
    return fail(ErrorKind::invalid, "this is the history itself", target, "name another file");
  }
  if (auto checked = check_no_side_file(target); !checked) return checked;
  if (auto checked = check_output_file(target, may_replace); !checked) return checked;
  // SQLite would take them for files of the copy, and write their content over it.
  for (const char* suffix : {"-wal", "-journal"}) {
    const fs::path left = target.string() + suffix;
    if (!fs::exists(fs::symlink_status(left, error))) continue;
    return fail(ErrorKind::invalid, "the log of another database lies beside the copy", left,
                "name another file; if nobody uses that database, open it once with sqlite3");
  }
  return {};
}

std::set<std::string> run_ids(const Database& database) {
  std::set<std::string> ids;
  auto rows = prepare(database, "SELECT id FROM runs", {});
  while (rows.executeStep())
    ids.insert(rows.getColumn(0).getString());
  return ids;
}

// Returns the runs of the history that a copy would replace. REQUIRES: it has no log (check_target()).
Result<std::set<std::string>> runs_to_replace(const fs::path& target) {
  std::string refusal = "it is not a history, and would be lost";
  try {
    const auto opened = open_as_it_is(target);
    if (opened) {
      Database& database = **opened;
      const bool is_empty = database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
      return is_empty ? std::set<std::string>() : run_ids(database);
    }
    if (opened.error().kind == ErrorKind::newer_version) refusal = opened.error().what;
  } catch (const SQLite::Exception&) {
    // It is no database, or damaged.
  }
  return fail(ErrorKind::invalid, refusal, target, "name another file, or remove this one");
}

// Replaces an earlier copy, but no file of another kind, and runs that `source` lacks only if `may_lose_runs`. Returns their
// number.
Result<std::int64_t> check_replaced(const Database& source, const fs::path& target,
                                    bool may_lose_runs) {
  std::error_code error;
  if (!fs::exists(target, error)) return 0;
  const auto replaced = runs_to_replace(target);
  if (!replaced) return forward_error(replaced);
  const std::set<std::string> kept = run_ids(source);
  const auto lost =
      std::ranges::count_if(*replaced, [&](const std::string& run) { return !kept.contains(run); });
  if (lost == 0 || may_lose_runs) return lost;
  return fail(ErrorKind::invalid,
              "it is a history with " + format_counted(lost, "run") +
                  " that this history lacks, and would be lost",
              target,
              "add --drop-runs to give them up, as after 'autotuned history prune'; else name "
              "another file, or take them over first with 'autotuned history import'");
}

Result<void> copy_pages(Database& from, const fs::path& file) {
  Database copy(file.string(), SQLite::OPEN_READWRITE);
  // All pages in one step: one snapshot. Writers of the history neither wait for it nor change it.
  const int code = SQLite::Backup(copy, from).executeStep(-1);
  if (code != SQLITE_DONE) return fail(ErrorKind::busy, "the history is locked", file);
  // Without a log the copy is a single file that can be read anywhere, even if nothing can be written there.
  copy.exec("PRAGMA journal_mode = DELETE");
  return {};
}

Result<void> check_copy(Database& from, const fs::path& file) {
  Database copy(immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
  const Integrity found = integrity_of(copy);
  // Rows that refer to missing ones do so in the history, too. The copy is still correct.
  if (!found.damage.empty()) {
    return tl::unexpected(corrupt_error("the copy is damaged: " + found.damage, file));
  }
  for (const char* pragma : {"PRAGMA application_id", "PRAGMA user_version"}) {
    if (copy.execAndGet(pragma).getInt64() != from.execAndGet(pragma).getInt64()) {
      return tl::unexpected(corrupt_error("the copy is not a history", file));
    }
  }
  return {};
}

// Unlike publish_file(), this never replaces a file, even if it was made just now.
Result<void> publish_new(const fs::path& temporary, const fs::path& target) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
    // Renaming the file to its own name changes nothing, but publish_file() syncs file and folder.
    return publish_file(target, target);
  }
  if (errno == EINVAL || errno == ENOSYS) return publish_file(temporary, target);
  return tl::unexpected(system_error(errno, "cannot name the copy", target));
}

// The version of the schema that has plans of runs.
constexpr std::int64_t kFirstWithPlans = 10;

// Selects runs to prune and marks those that stay: the runs that a best configuration names, and for each the newest run that found the
// same configuration by search and not by verification. ?3 lists the runs that a process owns. A run also counts as unfinished if an
// unfinished run extends its training, or if it is the newest run of a job and plan with an older, unfinished run that stays: without
// the newest one, the older one would be continued.
constexpr const char* kPlanSql = R"sql(
WITH resting AS (
  SELECT run_id FROM best_configurations
  UNION
  SELECT (SELECT finder.id FROM runs AS finder
          WHERE finder.recipe_hash = best.recipe_hash
            AND finder.environment_key = best.environment_key
            AND finder.best_configuration = best.configuration
            AND EXISTS (SELECT 1 FROM trials WHERE trials.run_id = finder.id
                                               AND trials.kind <> 'verification')
            AND NOT EXISTS (SELECT 1 FROM trials WHERE trials.run_id = finder.id
                                                   AND trials.kind = 'verification'
                                                   AND trials.verdict = 'accepted')
          ORDER BY finder.sequence DESC LIMIT 1)
  FROM best_configurations AS best
),
at_work AS (SELECT value FROM json_each(?3)),
extended AS (SELECT CASE WHEN json_valid(plan) THEN json_extract(plan, '$.extends') END AS run_id
             FROM runs WHERE state NOT IN ('finished', 'failed'))
SELECT id, recipe_name, started_unix_ns,
  (SELECT count(*) FROM trials WHERE trials.run_id = runs.id) AS trial_count,
  id IN (SELECT run_id FROM resting WHERE run_id IS NOT NULL) AS is_best,
  sequence IN at_work OR id IN (SELECT run_id FROM extended WHERE run_id IS NOT NULL)
  OR (state <> 'failed' AND NOT EXISTS (
    SELECT 1 FROM runs AS newer
    WHERE newer.recipe_hash = runs.recipe_hash AND newer.environment_key = runs.environment_key
      AND newer.plan = runs.plan AND newer.is_tune_only = runs.is_tune_only
      AND newer.state <> 'failed' AND newer.sequence > runs.sequence
  ) AND (state <> 'finished' OR EXISTS (
    SELECT 1 FROM runs AS older
    WHERE older.recipe_hash = runs.recipe_hash AND older.environment_key = runs.environment_key
      AND older.plan = runs.plan AND older.is_tune_only = runs.is_tune_only
      AND older.state NOT IN ('finished', 'failed')
      AND (older.sequence IN at_work OR older.id IN resting)
  ))) AS is_unfinished
FROM runs
WHERE started_unix_ns < ?1
  AND sequence NOT IN (SELECT sequence FROM runs
                       ORDER BY sequence DESC LIMIT ?2)
ORDER BY sequence)sql";

}  // namespace

Result<BackupCopy> History::backup(const fs::path& given, bool may_replace,
                                   bool may_lose_runs) const {
  std::error_code error;
  const fs::path target = fs::absolute(given, error);
  if (auto checked = check_target(path(), target, may_replace); !checked) {
    return tl::unexpected(checked.error());
  }
  const auto made = Unpublished::make(target);
  if (!made) return tl::unexpected(made.error());
  const Unpublished& copy = *made;
  BackupCopy result;
  const auto written =
      connection_->read("copy the history", [&](Database& database) -> Result<void> {
        const auto lost = check_replaced(database, target, may_lose_runs);
        if (!lost) return forward_error(lost);
        result.runs_lost = *lost;
        auto copied = copy_pages(database, copy.file());
        return copied ? check_copy(database, copy.file()) : copied;
      });
  if (!written) return tl::unexpected(written.error());
  result.size_bytes = static_cast<std::int64_t>(fs::file_size(copy.file(), error));
  const auto published =
      may_replace ? publish_file(copy.file(), target) : publish_new(copy.file(), target);
  if (!published) return tl::unexpected(published.error());
  return result;
}

Result<PrunePlan> History::plan_pruning(const PruneRule& rule) const {
  if (!rule.before_unix_ns && !rule.keep_last) {
    return fail(ErrorKind::invalid, "pruning needs at least one rule", path());
  }
  if (connection_->schema_version < kFirstWithPlans) {
    return fail(ErrorKind::unsupported,
                "the history has schema version " + std::to_string(connection_->schema_version) +
                    " of an earlier autotuned, which does not say what a run needs",
                path(),
                "give the command again after an 'autotuned run', which brings it up to date, or "
                "for a copy that 'autotuned history import " +
                    path().string() + " --history COPY' makes");
  }
  return connection_->read("plan the pruning", [&](const Database& database) -> Result<PrunePlan> {
    constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
    const RunOwners owners(path());
    Json at_work = Json::array();
    for (const UnfinishedRun& run : unfinished_runs(database)) {
      if (owners.has(run.sequence)) at_work.push_back(run.sequence);
    }
    SQLite::Statement statement =
        prepare(database, kPlanSql,
                {integer(rule.before_unix_ns.value_or(kAny)), integer(rule.keep_last.value_or(0)),
                 json_text(at_work)});
    PrunePlan plan;
    while (statement.executeStep()) {
      const Row row(statement);
      if (row.boolean("is_unfinished")) {
        ++plan.kept_unfinished;
      } else if (row.boolean("is_best")) {
        ++plan.kept_for_best;
      } else {
        plan.runs.push_back({.id = {row.text("id")},
                             .recipe_name = row.text("recipe_name"),
                             .started_unix_ns = row.integer("started_unix_ns"),
                             .trials = row.integer("trial_count")});
      }
    }
    return plan;
  });
}

Result<bool> History::remove_run(const RunId& run) {
  return connection_->write("remove the run", [&](Database& database) -> Result<bool> {
    const std::vector<Value> id = {text(run.text)};
    auto removable = prepare(database,
                             "SELECT sequence, state FROM runs WHERE id = ?1 "
                             "AND id NOT IN (SELECT run_id FROM best_configurations) "
                             "AND NOT EXISTS (SELECT 1 FROM runs AS sequel "
                             "WHERE sequel.state NOT IN ('finished', 'failed') AND "
                             "CASE WHEN json_valid(sequel.plan) "
                             "THEN json_extract(sequel.plan, '$.extends') END = runs.id)",
                             id);
    if (!removable.executeStep()) return false;
    const Row row(removable);
    // A row with a state that this program does not write must be removable.
    const auto state = run_state_from(row.text("state"));
    const bool is_unfinished = !state || state == RunState::tuning || state == RunState::training;
    if (is_unfinished && RunOwners(path()).has(row.integer("sequence"))) return false;
    removable.reset();
    for (const char* table :
         {"blocks", "checks", "findings", "profiles", "plugin_answers", "trainer_ends", "trials"}) {
      prepare(database, std::string("DELETE FROM ") + table + " WHERE run_id = ?", id).exec();
    }
    prepare(database, "DELETE FROM runs WHERE id = ?", id).exec();
    return true;
  });
}

Result<void> History::compact() {
  return connection_->read("compact the history", [&](Database& database) -> Result<void> {
    // To leave the write-ahead log this process must be the only user of the file. Otherwise a session that writes would wait for the
    // whole compaction, and give up.
    if (database.execAndGet("PRAGMA journal_mode = DELETE").getString() != "delete") {
      return fail(ErrorKind::busy,
                  "another program uses the history, so its space was not given back", path(),
                  "give the same command again when no other program uses it");
    }
    database.exec("VACUUM");
    database.exec("PRAGMA journal_mode = WAL");
    return {};
  });
}

}  // namespace autotuned::storage
