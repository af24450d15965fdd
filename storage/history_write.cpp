// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "storage/connection.hpp"
#include "storage/rows.hpp"

namespace autotuned::storage {
namespace {

using Database = SQLite::Database;

Result<void> must_match(int rows, const std::string& what, const std::filesystem::path& file) {
  if (rows == 0) return fail(ErrorKind::not_found, "there is no " + what, file);
  return {};
}

void append(Fields& fields, Fields more) {
  fields.insert(fields.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

}  // namespace

Result<void> History::put_environment(const EnvironmentRow& environment) {
  return connection_->write("store the environment", [&](Database& database) -> Result<void> {
    upsert(database, "environments", "key",
           {{"key", text(environment.key)},
            {"facts", json_text(environment.facts)},
            {"libtorch_version", text(environment.libtorch)},
            {"build", text(environment.build)}});
    return {};
  });
}

Result<void> History::put_recipe(const RecipeRow& recipe) {
  return connection_->write("store the recipe", [&](Database& database) -> Result<void> {
    upsert(database, "recipes", "hash",
           {{"hash", text(recipe.hash)},
            {"name", text(recipe.name)},
            {"path", text(recipe.path)},
            {"content", json_text(recipe.content)}});
    return {};
  });
}

Result<void> History::put_run(const RunRow& run) {
  return connection_->write("store the run", [&](Database& database) -> Result<void> {
    Fields fields = key_fields(run);
    append(fields, ceiling_fields(run.ceiling_samples_per_second, run.ceiling_bound_by,
                                  run.ceiling_ladder));
    append(fields, progress_fields(run));
    insert(database, "runs", fields);
    return {};
  });
}

Result<void> History::update_run(const RunRow& run) {
  return connection_->write("update the run", [&](Database& database) {
    return must_match(update(database, "runs", progress_fields(run), "id = ?", {text(run.id.text)}),
                      "run " + run.id.text, path());
  });
}

Result<void> History::put_ceiling(const RunId& run, double samples_per_second,
                                  const std::string& bound_by, const Json& ladder) {
  return connection_->write("store the ceiling", [&](Database& database) {
    return must_match(update(database, "runs", ceiling_fields(samples_per_second, bound_by, ladder),
                             "id = ?", {text(run.text)}),
                      "run " + run.text, path());
  });
}

Result<void> History::put_trial(const RunId& run, const TrialRecord& trial) {
  return connection_->write("store the trial", [&](Database& database) -> Result<void> {
    upsert(database, "trials", "run_id, number", fields_of(run, trial));
    return {};
  });
}

Result<void> History::put_block(const TrialId& trial, const TrialBlock& block) {
  return connection_->write("store the block", [&](Database& database) -> Result<void> {
    insert(database, "blocks", fields_of(trial, block));
    return {};
  });
}

Result<void> History::put_check(const TrialId& trial, const CheckRecord& check) {
  return connection_->write("store the check", [&](Database& database) -> Result<void> {
    insert(database, "checks", fields_of(trial, check));
    return {};
  });
}

Result<void> History::put_trainer_end(const TrialId& trial, const TrainerEnd& end) {
  return connection_->write("store the end of a trainer", [&](Database& database) -> Result<void> {
    insert(database, "trainer_ends",
           {{"run_id", text(trial.run.text)},
            {"trial_number", integer(trial.number)},
            {"outcome", text(to_string(end.outcome))},
            {"evidence", json_text(end.evidence())},
            {"ended_unix_ns", integer(end.ended_unix_ns)}});
    return {};
  });
}

Result<void> History::put_profile(const RunId& run, const Configuration& configuration,
                                  const Json& metrics, const Json& spans, const Json& operators,
                                  std::int64_t taken_unix_ns,
                                  std::span<const FindingRecord> findings) {
  return connection_->write("store the profile", [&](Database& database) -> Result<void> {
    insert(database, "profiles",
           {{"run_id", text(run.text)},
            {"configuration", json_text(configuration.to_json())},
            {"metrics", json_text(metrics)},
            {"spans", json_text(spans)},
            {"operators", json_text(operators)},
            {"taken_unix_ns", integer(taken_unix_ns)}});
    const std::int64_t profile = database.getLastInsertRowid();
    for (const FindingRecord& finding : findings)
      insert(database, "findings", fields_of(run, profile, finding));
    return {};
  });
}

Result<void> History::put_plugin_asked(const RunId& run, const PluginAnswerRow& question) {
  return connection_->write("store the question", [&](Database& database) -> Result<void> {
    const std::vector<Value> identity = {text(question.plugin), text(question.version),
                                         text(question.sha256)};
    prepare(database, "INSERT OR IGNORE INTO plugins (name, version, sha256) VALUES (?, ?, ?)",
            identity)
        .exec();
    auto found = prepare(
        database, "SELECT sequence FROM plugins WHERE name = ? AND version = ? AND sha256 = ?",
        identity);
    found.executeStep();
    insert(database, "plugin_answers",
           {{"run_id", text(run.text)},
            {"plugin", integer(Row(found).integer("sequence"))},
            {"outcome", text(question.outcome)},
            {"is_failure", boolean(question.is_failure)},
            {"asked_unix_ns", integer(question.asked_unix_ns)},
            {"is_answered", boolean(question.is_answered)},
            {"kind", text(to_string(question.kind))},
            {"subject", text(question.subject)}});
    return {};
  });
}

Result<void> History::put_plugin_answered(const RunId& run, const std::string& plugin,
                                          const std::string& outcome, bool is_failure) {
  return connection_->write("store the answer", [&](Database& database) {
    const int rows = update(database, "plugin_answers",
                            {{"outcome", text(outcome)},
                             {"is_failure", boolean(is_failure)},
                             {"is_answered", boolean(true)}},
                            "sequence = (SELECT max(plugin_answers.sequence) FROM plugin_answers"
                            " JOIN plugins ON plugins.sequence = plugin_answers.plugin"
                            " WHERE run_id = ? AND name = ? AND is_answered = 0)",
                            {text(run.text), text(plugin)});
    return must_match(rows, "open question to " + plugin + " of run " + run.text, path());
  });
}

Result<void> History::put_best(const BestRow& best) {
  return connection_->write(
      "store the best configuration", [&](Database& database) -> Result<void> {
        upsert(database, "best_configurations", "recipe_hash, environment_key", fields_of(best));
        return {};
      });
}

Result<bool> History::forget_best(const std::string& recipe_hash,
                                  const std::string& environment_key) {
  return connection_->write(
      "forget the best configuration", [&](Database& database) -> Result<bool> {
        return prepare(
                   database,
                   "DELETE FROM best_configurations WHERE recipe_hash = ? AND environment_key = ?",
                   {text(recipe_hash), text(environment_key)})
                   .exec() > 0;
      });
}

}  // namespace autotuned::storage
