// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/utf8.hpp"
#include "storage/connection.hpp"
#include "storage/rows.hpp"
#include "storage/run_owners.hpp"
#include "storage/run_query.hpp"

namespace autotuned::storage {
namespace {

using Database = SQLite::Database;

// Reads the rows of a table, and leaves out those that cannot be read.
struct Reader {
  const Database& database;
  UnreadableRows& unreadable;
  const std::filesystem::path& file;

  // Reads every row of a query with `from`.
  template <class Item>
  std::vector<Item> all(const char* table, const std::string& sql, const std::vector<Value>& values,
                        Item (*from)(const Row&)) const {
    SQLite::Statement statement = prepare(database, sql, values);
    std::vector<Item> items;
    while (statement.executeStep()) {
      const Row row(statement);
      try {
        items.push_back(from(row));
      } catch (const DamagedRow& damage) {
        unreadable.leave_out(table, row, damage, file);
      }
    }
    return items;
  }

  // Reads a single row. REQUIRES: `sql` asks for at most one row.
  template <class Item>
  std::optional<Item> first(const char* table, const std::string& sql,
                            const std::vector<Value>& values, Item (*from)(const Row&)) const {
    std::vector<Item> items = all(table, sql, values, from);
    if (items.empty()) return std::nullopt;
    return std::move(items.front());
  }
};

// A file of an older version, which is only read, has neither kinds nor subjects.
AnswerKind answer_kind_in(const Row& row) {
  if (row.has("kind")) return row.name("kind", &answer_kind_from);
  return row.text("name") == kMachineName ? AnswerKind::machine : AnswerKind::asked;
}

PluginAnswerRow answer_from(const Row& row) {
  return {.plugin = row.text("name"),
          .version = row.text("version"),
          .sha256 = row.text("sha256"),
          .outcome = row.text("outcome"),
          .is_failure = row.boolean("is_failure"),
          .asked_unix_ns = row.integer("asked_unix_ns"),
          .is_answered = row.boolean("is_answered"),
          .kind = answer_kind_in(row),
          .subject = row.has("subject") ? row.text("subject") : std::string()};
}

TrialTrainerEnd trainer_end_from(const Row& row) {
  TrialTrainerEnd found{.trial = row.small_integer("trial_number"), .end = {}};
  found.end.outcome = row.name("outcome", &trainer_outcome_from);
  found.end.ended_unix_ns = row.integer("ended_unix_ns");
  found.end.take_evidence(row.json("evidence"));
  return found;
}

EnvironmentRow environment_from(const Row& row) {
  return {.key = row.text("key"),
          .facts = row.json("facts"),
          .libtorch = row.text("libtorch_version"),
          .build = row.text("build")};
}

BestEnvironment place_from(const Row& row) {
  return {.environment_key = row.text("key"), .libtorch = row.text("libtorch_version")};
}

// Reads a profile with the findings of its trace.
struct StoredProfile {
  std::int64_t sequence = 0;
  Json profile;
};

StoredProfile profile_from(const Row& row) {
  return {.sequence = row.integer("sequence"),
          .profile = {{"configuration", row.json("configuration")},
                      {"metrics", row.json("metrics")},
                      {"spans", row.json("spans")},
                      {"operators", row.json("operators")},
                      {"taken_unix_ns", row.integer("taken_unix_ns")},
                      {"findings", Json::array()}}};
}

struct RunTrial {
  std::int64_t run_sequence = 0;
  TrialRecord trial;
};

RunTrial run_trial_from(const Row& row) {
  return {.run_sequence = row.integer("run_sequence"), .trial = trial_from(row)};
}

// Reads trials of this job (`which` is "=") or of others ("<>"), run by run from the newest, so that it ends at the limit however many
// there are.
struct DecidedTrials {
  const Reader& read;
  const std::string& environment_key;
  const std::string& recipe_hash;
  const RunId& except;

  [[nodiscard]] std::vector<RunTrial> newest(const char* which, std::int64_t most) const {
    return read.all("trials",
                    std::string("SELECT trials.*, runs.sequence AS run_sequence "
                                "FROM runs JOIN trials ON trials.run_id = runs.id "
                                "WHERE runs.environment_key = ? AND runs.recipe_hash ") +
                        which +
                        " ? AND runs.id <> ? AND trials.kind = 'proposal' "
                        "AND trials.verdict IN ('accepted', 'rejected', 'failed') "
                        "ORDER BY runs.sequence DESC, trials.number DESC LIMIT ?",
                    {text(environment_key), text(recipe_hash), text(except.text), integer(most)},
                    run_trial_from);
  }
};

// Sorted by number and not by date, because clocks jump.
std::vector<TrialRecord> in_order(std::vector<RunTrial> found) {
  std::ranges::sort(
      found, {}, [](const RunTrial& one) { return std::pair(one.run_sequence, one.trial.number); });
  std::vector<TrialRecord> trials;
  for (RunTrial& one : found)
    trials.push_back(std::move(one.trial));
  return trials;
}

Json finding_json_from(const Row& row) {
  return finding_from(row).to_json();
}

void mark_interrupted(const Database& database, const std::filesystem::path& file,
                      std::vector<RunRow>& runs) {
  const auto is_unfinished = [](const RunRow& run) {
    return run.state == RunState::tuning || run.state == RunState::training;
  };
  if (std::ranges::none_of(runs, is_unfinished)) return;
  const auto interrupted = interrupted_runs(database, file);
  for (RunRow& run : runs)
    run.is_interrupted = is_unfinished(run) && interrupted.contains(run.id.text);
}

std::string id_from(const Row& row) {
  return row.text("id");
}

std::string listed(const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids)
    text += (text.empty() ? "" : ", ") + id;
  return text;
}

// The line "*** in database main ***" is removed, because there is no other database.
std::string in_one_line(std::string found) {
  constexpr std::string_view kHeading = "*** in database main ***\n";
  if (found.starts_with(kHeading)) found.erase(0, kHeading.size());
  std::ranges::replace(found, '\n', ' ');
  return found;
}

}  // namespace

Result<std::vector<RunRow>> History::runs(const RunFilter& filter) const {
  return connection_->read("list runs",
                           [&](const Database& database) -> Result<std::vector<RunRow>> {
                             const Reader read{database, connection_->unreadable, path()};
                             const RunQuery query = run_query(filter);
                             auto found = read.all("runs", query.sql, query.values, run_from);
                             mark_interrupted(database, path(), found);
                             return found;
                           });
}

Result<std::optional<EnvironmentRow>> History::environment(const std::string& key) const {
  return connection_->read("find the environment",
                           [&](const Database& database) -> Result<std::optional<EnvironmentRow>> {
                             const Reader read{database, connection_->unreadable, path()};
                             return read.first("environments",
                                               "SELECT * FROM environments WHERE key = ?",
                                               {text(key)}, environment_from);
                           });
}

Result<RunRow> History::run(const std::string& id_or_prefix) const {
  return connection_->read("find the run", [&](const Database& database) -> Result<RunRow> {
    constexpr std::size_t kMaxShown = 5;
    const Reader read{database, connection_->unreadable, path()};
    std::vector<std::string> ids;
    if (id_or_prefix == "last") {
      ids = read.all("runs", "SELECT id FROM runs ORDER BY sequence DESC LIMIT 1", {}, id_from);
    } else if (!id_or_prefix.empty()) {
      // Without LIKE, because it has wildcards. U+10FFFF sorts after every character of an id.
      ids = read.all("runs",
                     "SELECT id FROM runs WHERE id >= ?1 AND id <= ?1 || char(1114111) "
                     "ORDER BY id LIMIT ?2",
                     {text(id_or_prefix), integer(kMaxShown + 1)}, id_from);
    }
    if (ids.empty()) {
      return fail(ErrorKind::not_found, "there is no run '" + short_for_message(id_or_prefix) + "'",
                  path(), "'autotuned history' lists the runs");
    }
    if (ids.size() > 1 && ids.front() != id_or_prefix) {
      const bool has_more = ids.size() > kMaxShown;
      if (has_more) ids.pop_back();
      return fail(ErrorKind::invalid,
                  "'" + id_or_prefix + "' begins the ids of several runs: " + listed(ids) +
                      (has_more ? ", ..." : ""),
                  path(), "give more of the id");
    }
    SQLite::Statement statement =
        prepare(database, "SELECT * FROM runs WHERE id = ?", {text(ids.front())});
    if (!statement.executeStep()) {
      return fail(ErrorKind::not_found, "run " + ids.front() + " was removed just now", path());
    }
    std::vector<RunRow> found;
    try {
      found.push_back(run_from(Row(statement)));
    } catch (const DamagedRow& damage) {
      return fail(
          ErrorKind::corrupt, "the row of run " + ids.front() + " cannot be read: " + damage.what(),
          path(),
          "other runs can be read; 'autotuned history prune' removes old runs, this one too");
    }
    statement.reset();
    mark_interrupted(database, path(), found);
    return std::move(found.front());
  });
}

Result<std::optional<RunRow>> History::unfinished_run(const RunKey& key) const {
  return connection_->read(
      "look for an unfinished run", [&](const Database& database) -> Result<std::optional<RunRow>> {
        const Reader read{database, connection_->unreadable, path()};
        const auto newest = [&](bool is_tune_only) {
          return read.first("runs",
                            "SELECT * FROM runs WHERE recipe_hash = ? AND environment_key = ? "
                            "AND plan = ? AND is_tune_only = ? AND state <> 'failed' "
                            "ORDER BY sequence DESC LIMIT 1",
                            {text(key.recipe_hash), text(key.environment_key), text(key.plan),
                             boolean(is_tune_only)},
                            run_from);
        };
        auto found = newest(key.is_tune_only);
        // A run that only tuned may be trained now, but not if a later training has ended.
        if (!found && !key.is_tune_only) found = newest(true);
        if (found && found->state == RunState::finished) found.reset();
        return found;
      });
}

Result<std::optional<RunRow>> History::other_unfinished_run(const RunKey& key) const {
  return connection_->read(
      "look for other unfinished runs",
      [&](const Database& database) -> Result<std::optional<RunRow>> {
        const Reader read{database, connection_->unreadable, path()};
        auto found = read.all(
            "runs",
            "SELECT * FROM runs WHERE recipe_hash = ?1 AND environment_key = ?2 "
            "AND (plan <> ?3 OR is_tune_only <> ?4) AND state NOT IN ('finished', 'failed') "
            "AND NOT EXISTS (SELECT 1 FROM runs AS newer WHERE newer.recipe_hash = ?1 "
            "AND newer.environment_key = ?2 AND newer.plan = runs.plan "
            "AND newer.is_tune_only = runs.is_tune_only AND newer.state <> 'failed' "
            "AND newer.sequence > runs.sequence) ORDER BY sequence DESC",
            {text(key.recipe_hash), text(key.environment_key), text(key.plan),
             boolean(key.is_tune_only)},
            run_from);
        mark_interrupted(database, path(), found);
        for (RunRow& run : found) {
          if (run.state == RunState::cancelled || run.is_interrupted) return std::move(run);
        }
        return std::nullopt;
      });
}

Result<std::vector<TrialRecord>> History::trials(const RunId& run) const {
  return connection_->read(
      "read trials", [&](const Database& database) -> Result<std::vector<TrialRecord>> {
        const Reader read{database, connection_->unreadable, path()};
        return read.all("trials", "SELECT * FROM trials WHERE run_id = ? ORDER BY number",
                        {text(run.text)}, trial_from);
      });
}

Result<int> History::last_trial_number(const RunId& run) const {
  return connection_->read("count trials", [&](const Database& database) -> Result<int> {
    auto found =
        prepare(database, "SELECT coalesce(max(number), 0) AS number FROM trials WHERE run_id = ?",
                {text(run.text)});
    found.executeStep();
    return Row(found).small_integer("number");
  });
}

Result<std::vector<TrialRecord>> History::earlier_trials(const std::string& environment_key,
                                                         const std::string& recipe_hash,
                                                         std::int64_t limit,
                                                         const RunId& except) const {
  return connection_->read(
      "read earlier trials", [&](const Database& database) -> Result<std::vector<TrialRecord>> {
        const Reader read{database, connection_->unreadable, path()};
        const DecidedTrials decided{read, environment_key, recipe_hash, except};
        auto newest_first = decided.newest("=", limit);
        const auto left = limit - static_cast<std::int64_t>(newest_first.size());
        if (limit < 0 || left > 0) {
          auto others = decided.newest("<>", limit < 0 ? limit : left);
          std::ranges::move(others, std::back_inserter(newest_first));
        }
        return in_order(std::move(newest_first));
      });
}

Result<std::vector<TrialRecord>> History::job_trials(const std::string& environment_key,
                                                     const std::string& recipe_hash,
                                                     std::int64_t limit,
                                                     const RunId& except) const {
  return connection_->read(
      "read trials of the job", [&](const Database& database) -> Result<std::vector<TrialRecord>> {
        const Reader read{database, connection_->unreadable, path()};
        return in_order(
            DecidedTrials{read, environment_key, recipe_hash, except}.newest("=", limit));
      });
}

Result<std::vector<TrialBlock>> History::blocks(const TrialId& trial) const {
  return connection_->read(
      "read blocks", [&](const Database& database) -> Result<std::vector<TrialBlock>> {
        const Reader read{database, connection_->unreadable, path()};
        return read.all("blocks",
                        "SELECT * FROM blocks WHERE run_id = ? AND trial_number = ? "
                        "ORDER BY pair, is_first DESC, is_candidate",
                        {text(trial.run.text), integer(trial.number)}, block_from);
      });
}

Result<std::vector<CheckRecord>> History::checks(const TrialId& trial) const {
  return connection_->read(
      "read checks", [&](const Database& database) -> Result<std::vector<CheckRecord>> {
        const Reader read{database, connection_->unreadable, path()};
        return read.all(
            "checks",
            "SELECT * FROM checks WHERE run_id = ? AND trial_number = ? ORDER BY sequence",
            {text(trial.run.text), integer(trial.number)}, check_from);
      });
}

Result<std::vector<TrialTrainerEnd>> History::trainer_ends(const RunId& run) const {
  return connection_->read("read the ends of trainers",
                           [&](const Database& database) -> Result<std::vector<TrialTrainerEnd>> {
                             // A file of an older version that is only read has no such table.
                             if (!database.tableExists("trainer_ends"))
                               return std::vector<TrialTrainerEnd>{};
                             const Reader read{database, connection_->unreadable, path()};
                             return read.all(
                                 "trainer_ends",
                                 "SELECT * FROM trainer_ends WHERE run_id = ? ORDER BY sequence",
                                 {text(run.text)}, trainer_end_from);
                           });
}

Result<std::vector<PluginAnswerRow>> History::plugin_answers(const RunId& run) const {
  return connection_->read(
      "read answers of plugins",
      [&](const Database& database) -> Result<std::vector<PluginAnswerRow>> {
        const Reader read{database, connection_->unreadable, path()};
        return read.all("plugin_answers",
                        "SELECT plugin_answers.*, name, version, sha256 FROM plugin_answers "
                        "JOIN plugins ON plugins.sequence = plugin_answers.plugin "
                        "WHERE run_id = ? ORDER BY plugin_answers.sequence",
                        {text(run.text)}, answer_from);
      });
}

Result<std::vector<Json>> History::profiles(const RunId& run) const {
  return connection_->read(
      "read profiles", [&](const Database& database) -> Result<std::vector<Json>> {
        // A file of an older version that is only read has no such table.
        const bool has_findings = database.tableExists("findings");
        const Reader read{database, connection_->unreadable, path()};
        std::vector<Json> profiles;
        for (StoredProfile& stored :
             read.all("profiles", "SELECT * FROM profiles WHERE run_id = ? ORDER BY sequence",
                      {text(run.text)}, profile_from)) {
          profiles.push_back(std::move(stored.profile));
          if (!has_findings) continue;
          profiles.back()["findings"] =
              read.all("findings",
                       "SELECT * FROM findings WHERE run_id = ? AND profile = ? ORDER BY sequence",
                       {text(run.text), integer(stored.sequence)}, finding_json_from);
        }
        return profiles;
      });
}

Result<std::optional<BestRow>> History::best(const std::string& recipe_hash,
                                             const std::string& environment_key) const {
  return connection_->read(
      "read the best configuration",
      [&](const Database& database) -> Result<std::optional<BestRow>> {
        const Reader read{database, connection_->unreadable, path()};
        return read.first(
            "best_configurations",
            "SELECT * FROM best_configurations WHERE recipe_hash = ? AND environment_key = ?",
            {text(recipe_hash), text(environment_key)}, best_from);
      });
}

Result<std::vector<BestEnvironment>> History::environments_with_best(
    const std::string& recipe_hash) const {
  return connection_->read("find best configurations",
                           [&](const Database& database) -> Result<std::vector<BestEnvironment>> {
                             const Reader read{database, connection_->unreadable, path()};
                             return read.all(
                                 "best_configurations",
                                 "SELECT key, libtorch_version FROM best_configurations AS best "
                                 "JOIN environments ON key = best.environment_key "
                                 "WHERE best.recipe_hash = ? "
                                 "ORDER BY (SELECT max(runs.sequence) FROM runs "
                                 "WHERE runs.recipe_hash = best.recipe_hash "
                                 "AND runs.environment_key = best.environment_key) DESC",
                                 {text(recipe_hash)}, place_from);
                           });
}

Result<Integrity> History::check_integrity() const {
  return connection_->read("check the history", [](const Database& database) -> Result<Integrity> {
    return integrity_of(database);
  });
}

Result<void> History::check_pages() const {
  return connection_->read(
      "look for damage in the history", [&](const Database& database) -> Result<void> {
        std::error_code error;
        const std::uintmax_t size = std::filesystem::file_size(path(), error);
        if (error || size > kMaxBytesChecked) return {};
        SQLite::Statement pages(database, "PRAGMA quick_check(1)");
        if (!pages.executeStep()) return {};
        const std::string found = pages.getColumn(0).getString();
        if (found == "ok") return {};
        return tl::unexpected(
            corrupt_error("the history is damaged: " + in_one_line(found), path()));
      });
}

}  // namespace autotuned::storage
