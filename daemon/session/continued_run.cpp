// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/continued_run.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json.hpp"
#include "base/printable.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/session/output_folder.hpp"

namespace autotuned::daemon {
namespace {

using storage::History;
using storage::RunRow;

constexpr std::chrono::minutes kHistoryPatience{10};

// Seed, length and folder: what becomes of a training, however its parts were run.
Json trained_plan(const RunRow& run) {
  Json plan = parse_json(run.plan, "plan").value_or(Json::object());
  if (!plan.is_object()) return Json::object();
  for (const char* const way : {"extends", "schedule"})
    plan.erase(way);
  return plan;
}

Result<std::vector<RunRow>> all_runs(const History& history) {
  return history.runs({.recipe = {},
                       .environment = {},
                       .plugin = {},
                       .verdict = {},
                       .since_unix_ns = {},
                       .limit = -1});
}

// Whether a run has saved its model, although it was killed before it wrote its summary, so that the summary is still
// that of an earlier run.
bool has_saved_model(const RunRow& run) {
  if (run.state != storage::RunState::training) return false;
  const std::filesystem::path folder = run.output_dir;
  std::error_code failed;
  const auto model = std::filesystem::last_write_time(folder / "model.pt", failed);
  if (failed) return false;
  const auto summary = std::filesystem::last_write_time(folder / "summary.json", failed);
  return !failed && model > summary;
}

// Whether two recipes are equal apart from what runs of one job may differ in.
bool says_same(Json one, Json other) {
  for (Json* const recipe : {&one, &other}) {
    if (!recipe->is_object()) return false;
    for (const char* const left_out : {"name", "seed", "output", "file"})
      recipe->erase(left_out);
    for (const auto& [part, left_out] : {std::pair{"train", "epochs"}, std::pair{"train", "steps"},
                                         std::pair{"tune", "budget_ns"}}) {
      if (const auto found = recipe->find(part); found != recipe->end() && found->is_object())
        found->erase(left_out);
    }
  }
  return one == other;
}

bool has_same_recipe(const RunRow& one, const RunRow& other) {
  return says_same(one.recipe, other.recipe);
}

// In what is known of both.
bool are_other_data(const Json& before, const Json& now) {
  for (const char* const set : {"train", "test"}) {
    const Json& then = member(before, set);
    if (!then.is_object()) continue;
    for (const auto& [part, value] : then.items()) {
      const Json& found = member(member(now, set), part.c_str());
      if (!found.is_null() && !value.is_null() && found != value) return true;
    }
  }
  return false;
}

bool is_model_there(const RunRow& run) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(run.output_dir) / "model.pt", ignored);
}

// The message if no run of the history owns the model. A run that was killed before its summary may have written it.
std::string foreign_files_text(const History& history, const RunRow& run) {
  const std::filesystem::path folder = run.output_dir;
  std::error_code ignored;
  bool has_model = !run.is_tune_only && std::filesystem::exists(folder / "model.pt", ignored);
  bool has_summary = std::filesystem::exists(folder / "summary.json", ignored);
  if (!has_model && !has_summary) return {};
  const auto runs = all_runs(history);
  if (!runs) return {};
  for (const RunRow& other : *runs) {
    if (other.output_dir != run.output_dir || other.id.text == run.id.text) continue;
    has_summary = false;
    if (!other.is_tune_only) has_model = false;
  }
  if (!has_model && !has_summary) return {};
  const std::string what = has_model && has_summary ? "a model.pt and a summary.json"
                           : has_model              ? "a model.pt"
                                                    : "a summary.json";
  return folder.string() + " has " + what +
         " that no run of this history wrote: this one replaces " +
         (has_model && has_summary ? "them" : "it") + "; --output names another folder";
}

Result<std::optional<RunRow>> find_run(const History& history, const SessionRequest& request,
                                       const storage::RunKey& key) {
  if (!request.continue_run.empty()) {
    auto ours = history.run(request.continue_run);
    if (!ours) return tl::unexpected(ours.error());
    // A command that trains may have taken over what we only tuned: the training is not ours to end.
    if (ours->is_tune_only == key.is_tune_only) return std::optional(*std::move(ours));
  }
  auto row = history.unfinished_run(key);
  // A new search (--retune) continues no run, except a new search that was interrupted.
  if (row && *row && request.retune && !(*row)->is_retuned) row->reset();
  return row;
}

}  // namespace

std::string plan_of(const recipes::Recipe& recipe, const std::string& extends,
                    const std::string& schedule) {
  Json plan = {{"seed", recipe.seed},
               {"epochs", nullptr},
               {"steps", nullptr},
               {"output", recipe.output_dir.string()}};
  if (recipe.train.epochs) plan["epochs"] = *recipe.train.epochs;
  if (recipe.train.steps) plan["steps"] = *recipe.train.steps;
  if (!extends.empty()) plan["extends"] = extends;
  if (!schedule.empty()) plan["schedule"] = schedule;
  return to_line(plan);
}

std::string replaced_model_text(const History& history, const RunRow& run) {
  if (!extended_run(run).empty()) return {};
  const auto owner = owner_of_model(history, run.output_dir);
  // A run that was killed in its training may have written these files before.
  if (!owner && run.state == storage::RunState::training) return {};
  if (!owner) return foreign_files_text(history, run);
  if (run.is_tune_only || !is_model_there(run) || has_saved_model(run)) return {};
  if (owner->id.text == run.id.text) return {};
  const bool is_same_job = owner->recipe_hash == run.recipe_hash;
  if (is_same_job && trained_plan(*owner) == trained_plan(run)) return {};
  const std::string file = get_string(owner->recipe, "file").value_or("");
  std::string which = "of the recipe " + owner->recipe_name + (file.empty() ? "" : ", " + file);
  if (!is_same_job && has_same_recipe(*owner, run))
    which = "of the same recipe, with files of other names or sizes";
  return run.output_dir + " has the model of run " + owner->id.text + ", another training (" +
         which + "): this one replaces it; --output names another folder";
}

std::string other_data_text(const History& history, const RunRow& run, const Json& data) {
  if (!extended_run(run).empty() || !is_model_there(run) || has_saved_model(run)) return {};
  const auto owner = owner_of_model(history, run.output_dir);
  if (!owner || owner->id.text == run.id.text || owner->recipe_hash != run.recipe_hash) return {};
  // Another seed draws another validation split; replaced_model_text() has told of that training.
  if (trained_plan(*owner) != trained_plan(run)) return {};
  if (!are_other_data(member(owner->training, kTrainedData), data)) return {};
  return run.output_dir + " has the model of run " + owner->id.text +
         ", which was trained on other data (files of the same names and sizes with other "
         "contents): this one replaces it; --output names another folder";
}

std::string changed_files_text(const History& history, const RunRow& run) {
  const auto runs = history.runs({.recipe = run.recipe_name,
                                  .environment = run.environment_key,
                                  .plugin = {},
                                  .verdict = {},
                                  .since_unix_ns = {},
                                  .limit = -1});
  if (!runs) return {};
  for (const RunRow& other : *runs) {  // the newest first
    if (other.id.text == run.id.text || other.output_dir != run.output_dir) continue;
    if (other.is_tune_only != run.is_tune_only || other.state == storage::RunState::failed)
      continue;
    if (other.recipe_hash == run.recipe_hash) return {};
    if (!has_same_recipe(other, run)) continue;
    const std::string what = "files of the data or weights have other names or sizes than in run " +
                             other.id.text + " of this recipe, so this is another job: ";
    if (other.state == storage::RunState::finished)
      return what + "it begins without what was measured there";
    return what +
           "that run is unfinished and stays as it is, and this one begins at step 0; with " +
           "the files of before the same command continues it";
  }
  return {};
}

std::string other_run_text(const RunRow& run) {
  const Json plan = parse_json(run.plan, "plan").value_or(Json::object());
  std::string what;
  for (const char* field : {"seed", "epochs", "steps"}) {
    const Json& value = member(plan, field);
    if (value.is_number()) what += std::string(field) + " " + value.dump() + ", ";
  }
  const std::string file = get_string(run.recipe, "file").value_or("");
  std::string options = run.is_tune_only ? " --tune-only" : "";
  if (!extended_run(run).empty()) options += " --extend";
  if (const auto schedule = get_string(plan, "schedule")) options += " --schedule " + *schedule;
  return "run " + run.id.text + " of the same job is unfinished and stays as it is (" + what +
         "output " + run.output_dir + "); with these, `autotuned run " +
         (file.empty() ? "RECIPE" : shell_word(file)) + " --output " + shell_word(run.output_dir) +
         options + "` and its other options, such as --budget, continue it";
}

Result<ClaimedRun> claim_run(const History& history, const SessionRequest& request,
                             const storage::RunKey& key) {
  Descriptor claim;
  for (std::string claimed;;) {
    auto run = find_run(history, request, key);
    if (!run) return tl::unexpected(run.error());
    if (!*run) return ClaimedRun{};
    if ((*run)->id.text == claimed) return ClaimedRun{*std::move(run), std::move(claim)};
    auto next = history.claim((*run)->id);
    if (!next) return tl::unexpected(next.error());
    claim = *std::move(next);
    claimed = (*run)->id.text;
  }
}

Result<std::vector<TrialRecord>> trials_of(const History& history, const RunId& run) {
  auto trials = history.trials(run);
  if (!trials) return trials;
  for (TrialRecord& trial : *trials) {
    if (trial.verdict != Verdict::rejected) continue;
    auto checks = history.checks({run, trial.number});
    if (!checks) return tl::unexpected(checks.error());
    if (!checks->empty() && !checks->back().passed) trial.failed_check = checks->back();
  }
  return trials;
}

std::chrono::nanoseconds earlier_tuning_time(const RunRow& run,
                                             const std::vector<TrialRecord>& trials) {
  std::int64_t of_trials_ns = 0;
  for (const TrialRecord& trial : trials)
    if (trial.kind != TrialKind::ablation) of_trials_ns += trial.duration_ns;
  return std::chrono::nanoseconds(std::max(run.tuning_duration_ns, of_trials_ns));
}

storage::LockPatience patience_of(SessionControl& control, const std::filesystem::path& history) {
  return [&control, history, is_told = false](std::chrono::milliseconds waited) mutable {
    if (waited >= storage::kLockTimeout / 2 && !is_told) {
      is_told = true;
      control.report({{"event", "warning"},
                      {"text", "another program has locked the history " + history.string() +
                                   "; the run waits for it"}});
    }
    return waited < kHistoryPatience && !control.is_requested();
  };
}

Result<void> store_end(History& history, const RunRow& run) {
  auto stored = history.set_patience(
      [](std::chrono::milliseconds waited) { return waited < storage::kLockTimeout; });
  if (auto count = history.interrupt_running_trials(run.id); !count) {
    stored = tl::unexpected(count.error());
  }
  if (auto updated = history.update_run(run); !updated) stored = std::move(updated);
  return stored;
}

std::string unstored_end_text(const RunRow& run, const Error& error) {
  return "the end of run " + run.id.text + " could not be stored (" + error.message() +
         "): the history has it as unfinished, and the same command continues it";
}

void remove_spent_checkpoints(const History& history, const std::filesystem::path& folder) {
  constexpr std::string_view kBegin = "checkpoint-";
  constexpr std::string_view kEnd = ".pt";
  std::error_code error;
  if (!std::filesystem::exists(folder / "model.pt", error)) return;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    const std::string id = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    const auto run = history.run(id);
    const bool is_spent =
        run && run->id.text == id && run->output_dir == folder.string() && has_trained(*run);
    if (!is_spent) continue;
    settle_checkpoint(folder, id, member(member(run->recipe, "output"), "keep_state") != false);
  }
}

Result<void> fail_lost_trials(History& history, const RunId& run, const std::vector<int>& numbers) {
  if (numbers.empty()) return {};
  auto trials = history.trials(run);
  if (!trials) return tl::unexpected(trials.error());
  for (TrialRecord& trial : *trials) {
    const bool is_lost = std::ranges::find(numbers, trial.number) != numbers.end();
    if (!is_lost || trial.verdict != Verdict::interrupted) continue;
    trial.verdict = Verdict::failed;
    trial.failure = ErrorKind::crashed;
    trial.reason = "the session ended twice in this trial";
    if (auto stored = history.put_trial(run, trial); !stored) return stored;
  }
  return {};
}

Result<void> put_faults(History& history, const RunId& run, const std::vector<PluginFault>& faults,
                        std::int64_t asked_unix_ns) {
  for (const PluginFault& fault : faults) {
    const auto answers = history.plugin_answers(run);
    if (!answers) return tl::unexpected(answers.error());
    const bool is_known = std::ranges::any_of(*answers, [&](const auto& answer) {
      return answer.is_failure && answer.plugin == fault.plugin;
    });
    if (is_known) continue;
    if (fault.is_loading) {
      // Nobody had asked it anything yet.
      storage::PluginAnswerRow question;
      question.plugin = fault.plugin;
      question.asked_unix_ns = asked_unix_ns;
      if (auto stored = history.put_plugin_asked(run, question); !stored) return stored;
    }
    auto stored = history.put_plugin_answered(run, fault.plugin, fault.outcome, true);
    if (!stored) return stored;
  }
  return {};
}

}  // namespace autotuned::daemon
