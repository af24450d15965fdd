// SPDX-License-Identifier: Apache-2.0
// The end of a run: training, what it leaves in the output folder, and how it is told.
#include "daemon/session/running_session.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/machine/machine_state.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/logs/training_log.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_course.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_time.hpp"
#include "daemon/session/continued_run.hpp"
#include "daemon/session/known_best.hpp"
#include "daemon/session/next_configuration.hpp"
#include "daemon/session/run_row.hpp"
#include "daemon/session/trained_check.hpp"
#include "recipes/recipe_yaml.hpp"

namespace autotuned::daemon {

using storage::RunState;

namespace {

constexpr int kTrainingAttempts = 3;
// The trainer is gone, and nothing tells why.
bool has_ended(const Error& error) {
  return error.kind == ErrorKind::crashed || error.kind == ErrorKind::timeout;
}

// Keys of RunRow::training from before the answer of the trainer, perhaps of an earlier process of the run.
constexpr std::array kStoredBefore = {"budget_ns",   "is_budget_spent", "untried",
                                      kBeyondBudget, kShortage,         "tuning_other_work_ratio",
                                      kFallbacks,    kSearchedBy};

}  // namespace

Result<void> RunningSession::train() {
  const auto earlier = runs_before(*history_, run_);
  if (!earlier) warn({earlier.error().message()});
  const std::vector<std::string> runs_of_training =  // before this one
      ids_before(earlier ? *earlier : std::vector<storage::RunRow>(), run_);
  std::optional<TrainingLog> log;
  if (auto opened = TrainingLog::open(output_.log / kTrainingLog, run_.id.text, runs_of_training)) {
    log.emplace(*std::move(opened));
  } else {
    warn({opened.error().message()});
  }
  if (run_.training.is_object()) run_.training.erase(kStoppedAt);
  // Of an earlier process of this run: who reads only what this one says would not know.
  if (const std::string fallback = fallback_text(run_); !fallback.empty()) {
    warn({"earlier in this run, " + fallback});
  }
  TrainingProgress so_far{.as_begun = run_.training, .checkpoint_step = std::nullopt};
  Json told_steps;  // the last progress of steps
  const auto on_progress = [this, &log, &so_far, &told_steps](const Json& progress) {
    if (const Json& data = member(progress, kTrainedData); !data.is_null()) return take_data(data);
    if (progress.contains("steps_total")) told_steps = progress;
    const auto written = get_integer(member(progress, "checkpoint"), "step");
    if (written) so_far.checkpoint_step = *written;
    report({{"event", "training"}, {"progress", progress}});
    if (!log || log->add(progress, clock_.unix_time_ns(), clock_.now())) return;
    log.reset();
    warn({"the log of the training cannot be written any more, and training goes on: " +
          (output_.log / kTrainingLog).string()});
  };
  const MachineState before = read_machine_state();
  const Json extend = sequel_ ? sequel_->to_request() : Json();
  Result<Json> trained = fail(ErrorKind::internal, "training did not start");
  for (int attempt = 1; attempt <= kTrainingAttempts; ++attempt) {
    trained = job_->train(trained_configuration(run_), checkpoint(), on_progress, extend);
    if (trained || control_->is_requested()) break;
    const auto has_other = fall_back(trained.error(), so_far);
    if (!has_other) return tl::unexpected(has_other.error());
    if (*has_other) {
      attempt = 0;
      continue;
    }
    if (!has_ended(trained.error())) break;
    warn({trained.error().message()});
    if (attempt != kTrainingAttempts - 1) continue;
    auto suspected = suspect_extensions(trained.error(), so_far, attempt);
    if (!suspected) return suspected;
  }
  if (!trained) {
    Error error = give_up_training(trained.error(), so_far);
    if (Json failure = failure_of(told_steps); !failure.is_null()) {
      run_.training[kStoppedAt] = std::move(failure);
    }
    return tl::unexpected(std::move(error));
  }
  if (get_bool(*trained, "cancelled").value_or(false)) {
    run_.training[kStoppedAt] = stop_of(*trained, told_steps);
    return fail(ErrorKind::cancelled, "stopped while training");
  }
  const Json stored = std::exchange(run_.training, *trained);
  for (const char* const key : kStoredBefore) {
    if (stored.contains(key)) run_.training[key] = stored.at(key);
  }
  if (!trained_data_.is_null()) run_.training[kTrainedData] = trained_data_;
  // The load while it trained: only that may be blamed for a slow training.
  const MachineState after = read_machine_state();
  run_.training["disturbances"] = Json::array();
  run_.training[kDisturbanceSubjects] = Json::array();
  for (const MachineFinding& finding : findings_between(before, after, device_.gpu())) {
    run_.training["disturbances"].push_back(finding.subject + ": " + finding.text);
    run_.training[kDisturbanceSubjects].push_back(finding.subject);
  }
  if (const auto busy = other_work_ratio(before, after)) {
    run_.training["other_work_ratio"] = *busy;
  }
  const std::string slow =
      slow_training_warning(run_, differing_extensions(trainer_plugins_, run_.starting, run_.best));
  if (!slow.empty()) warn({slow});
  return keep_what_trained();
}

// Before the first step: the model in the folder is replaced after the last one.
void RunningSession::take_data(const Json& data) {
  if (!trained_data_.is_null()) return;  // another attempt
  trained_data_ = data;
  const std::string replaced = other_data_text(*history_, run_, data);
  if (!replaced.empty()) warn({replaced});
}

Result<bool> RunningSession::fall_back(const Error& error, TrainingProgress& progress) {
  // An extension that lacks memory is left out first: smaller batches may be no help to it.
  if (!error.extensions.empty()) {
    auto has_other = leave_out_extensions(error, progress);
    if (!has_other) {
      // What cannot be recorded would be trained with again by the same command.
      warn({error.message()});
      return tl::unexpected(with_option_to_leave_out(has_other.error(), error.extensions));
    }
    if (*has_other) return true;
  }
  if (error.kind != ErrorKind::out_of_memory) return false;
  progress.checkpoint_step.reset();  // steps of another batch size are counted otherwise
  return fall_back_to_smaller(error);
}

Result<bool> RunningSession::fall_back_to_smaller(const Error& error) {
  const Configuration failed = trained_configuration(run_);
  const auto trials = history_->trials(run_.id);
  if (!trials) return tl::unexpected(trials.error());
  const auto next = after_out_of_memory(failed, run_.starting, *trials);
  if (!next) return false;
  add_fallback(*next, error, clock_.unix_time_ns(), run_);
  warn({"the training ran out of memory, and goes on from its last checkpoint with " +
        change_text(failed, failed.change_to(*next)) + ": " + error.message()});
  return history_->update_run(run_).map([] { return true; });
}

// It goes on from the last checkpoint, although the extensions were on until then. Each step is compared before the
// optimizer moves, and the weights once more before they are copied for a checkpoint: the one that is there was made by
// steps in which nothing was seen, and what was seen came after it. Not every number is compared, so where a comparison
// has found it, the steps that stay are told, and how to train anew: to do it at once could cost days for a false alarm.
// Without a checkpoint the training begins at the initial state, which no extension has touched.
Result<bool> RunningSession::leave_out_extensions(const Error& error, TrainingProgress& progress,
                                                  int ends) {
  std::vector<plugins::FoundPlugin> caught = trainer_plugins_;
  std::erase_if(caught, [&error](const plugins::FoundPlugin& plugin) {
    return std::ranges::find(error.extensions, plugin.name) == error.extensions.end();
  });
  const Configuration failed = trained_configuration(run_);
  const auto next = without_extensions(failed, run_.starting, extension_knobs(caught));
  if (!next) return false;
  std::error_code ignored;
  std::optional<std::int64_t> from_step = progress.checkpoint_step;
  if (!from_step && !std::filesystem::exists(checkpoint(), ignored)) from_step = 0;
  const Configuration change = failed.change_to(*next);
  // However much memory there is for the same command later: these extensions stay out.
  storage::RunRow as_begun = run_;
  as_begun.training = progress.as_begun;
  add_fallback(trained_configuration(as_begun).with(change), error, clock_.unix_time_ns(), as_begun,
               from_step, ends);
  progress.as_begun = std::move(as_begun.training);
  add_fallback(*next, error, clock_.unix_time_ns(), run_, from_step, ends);
  if (auto stored = history_->update_run(run_); !stored) return tl::unexpected(stored.error());
  std::string text = "the training goes on " + from_text(from_step) + " without " +
                     plugins_text(error.extensions) + " (" + change_text(failed, change) +
                     "): " + error.message();
  if (error.extension_fault == ExtensionFault::trained_otherwise) {
    const std::string doubted = doubted_steps_text(error.extensions, from_step);
    if (!doubted.empty()) text += "; " + doubted;
  }
  warn({text});
  return true;
}

// An extension may have damaged the memory of the trainer, or wait for ever. It may as well be innocent: the last
// attempt, without it, decides.
Result<void> RunningSession::suspect_extensions(const Error& error, TrainingProgress& progress,
                                                int ends) {
  const std::vector<std::string> suspects =
      differing_extensions(trainer_plugins_, run_.starting, trained_configuration(run_));
  if (suspects.empty()) return {};
  return leave_out_extensions(suspicion(error, suspects, ends), progress, ends).map([](bool) {});
}

Error RunningSession::give_up_training(const Error& error, const TrainingProgress& progress) {
  if (sequel_ && cannot_begin(error, checkpoint())) run_.state = RunState::failed;
  // Other programs may have freed the memory when the same command is given again.
  if (error.kind == ErrorKind::out_of_memory) run_.training = progress.as_begun;
  if (!has_ended(error) || control_->is_requested()) {
    // A step that fails without the suspects as well is the job's own fault.
    if (error.kind == ErrorKind::internal && !control_->is_requested()) take_back_guess(run_);
    return with_option_to_leave_out(error, error.extensions);
  }
  // Those that the recipe itself turns on.
  const std::vector<std::string> suspects = differing_extensions(
      trainer_plugins_, recipes::default_configuration(knobs_), trained_configuration(run_));
  take_back_guess(run_);
  return with_suspects(error, suspects, kTrainingAttempts);
}

Result<void> RunningSession::keep_what_trained() {
  const Configuration trained = trained_configuration(run_);
  if (trained == run_.best) return {};
  auto best = history_->best(run_.recipe_hash, run_.environment_key);
  if (!best) return tl::unexpected(best.error());
  // After a lack of memory that others had, the configuration fits again when they have ended.
  if (*best && (*best)->best == run_.best && !is_memory_taken_by_others(run_)) {
    storage::BestRow row = **std::move(best);
    row.run = run_.id;
    row.best = trained;
    row.speedup = {};  // nobody has measured it against the start; the next run does
    row.updated_unix_ns = clock_.unix_time_ns();
    // What was tried beside an extension may be worth something without it.
    row.is_complete = row.is_complete && refused_in_training(run_).empty();
    if (auto put = history_->put_best(row); !put) return put;
  }
  return refuse_best(*history_, run_);
}

Result<void> RunningSession::save_model() {
  if (auto saved = job_->save(model()); !saved) return tl::unexpected(saved.error());
  note_digests();
  // A continued run may have saved one under a recipe that wanted it; it goes with the checkpoint.
  const auto& evaluation = request_.recipe.evaluation;
  if (!evaluation || !evaluation->saves_best) return {};
  return publish_best_model(request_.recipe.output_dir, run_.id.text);
}

void RunningSession::note_digests() {
  for (const char* const name : {"model.pt", "model_ema.pt"}) {
    std::error_code ignored;
    const std::filesystem::path file = request_.recipe.output_dir / name;
    // If this run has no averages, the file of an earlier run stays.
    const bool is_ours = file == model() || request_.recipe.step_rules.ema_decay.has_value();
    if (!is_ours || !std::filesystem::exists(file, ignored)) continue;
    if (const auto digest = sha256_hex_of_file(file)) {
      run_.training[kModelDigests][name] = *digest;
    } else {
      warn({"`predict` will not notice if the model is damaged: " + digest.error().message()});
    }
  }
}

std::string RunningSession::kept_training() const {
  std::error_code ignored;
  if (!request_.tune_only || !std::filesystem::exists(model(), ignored)) return {};
  const auto owner = owner_of_model(*history_, run_.output_dir);
  return owner ? owner->id.text : std::string();
}

Result<void> RunningSession::write_best() {
  recipes::Recipe best =
      recipes::with_configuration(request_.recipe, trained_configuration(run_), knobs_);
  if (request_.recipe_budget) best.tune.budget = *request_.recipe_budget;
  return write_file_atomically(request_.recipe.output_dir / "best.yaml",
                               recipes::to_yaml(best, best_comment(run_)));
}

Result<void> RunningSession::check_trained_model() {
  report({{"event", "phase"}, {"phase", "checking the trained model"}});
  storage::RunRow trained = run_;
  trained.best = trained_configuration(run_);
  Json check = check_training(trained, job_input(), *job_, start_time_);
  if (check.is_null()) return {};
  run_.training["check"] = std::move(check);
  const std::string text = trained_check_text(run_);
  if (!has_failed_check(run_)) {
    if (!text.empty()) report({{"event", "note"}, {"text", text}});
    return {};
  }
  warn({text});
  if (auto refused = refuse_best(*history_, run_); !refused) return refused;
  return write_best();
}

Result<int> RunningSession::finish(const std::string& kept) {
  run_.state = RunState::finished;
  run_.ended_unix_ns = clock_.unix_time_ns();
  if (auto stored = history_->update_run(run_); !stored) return tl::unexpected(stored.error());
  return conclude_finished(kept);
}

Result<int> RunningSession::conclude_finished(const std::string& kept) {
  const auto result = stored_run_json(*history_, run_);
  if (!result) return tl::unexpected(result.error());
  if (kept.empty()) {
    auto written =
        write_file_atomically(request_.recipe.output_dir / "summary.json", to_lines(*result));
    if (!written) return tl::unexpected(written.error());
  }
  // Only now is there nothing left to resume.
  std::error_code ignored;
  if (!request_.tune_only && std::filesystem::exists(model(), ignored)) {
    settle_checkpoint(request_.recipe.output_dir, run_.id.text, request_.recipe.keeps_state);
  }
  return conclude(0, kept);
}

int RunningSession::conclude(int exit_code, const std::string& kept) {
  Json event = {{"event", "result"}, {"exit_code", exit_code}};
  if (has_run_) {
    const auto trials = history_->trials(run_.id);
    auto result = stored_run_json(*history_, run_);
    if (trials && result) {
      event["result"] = *std::move(result);
      if (!kept.empty()) event["result"][kFilesOf] = kept;
      event["text"] = summary_text(run_, *trials);
    }
  }
  report(event);
  return exit_code;
}

// Ends the run after an error: stored results stay, and the run gets the state from which the same command continues
// it.
int RunningSession::end_with(const Error& error) {
  bool is_left = false;
  if (has_run_) {
    is_left = take_end(error, clock_.unix_time_ns(), run_);
    auto stored = store_end(*history_, run_);
    // Without its history nobody continues the run, and the error says so where it is not this one.
    const bool is_gone = history_->is_gone();
    is_left = is_left && !is_gone;
    if (is_gone && !stored && stored.error().message() != error.message()) {
      warn({stored.error().message()});
    }
    // A run that another process continues stays as it is; this is reported below.
    if (!is_gone && !stored && !is_left) warn({unstored_end_text(run_, stored.error())});
  }
  if (error.kind == ErrorKind::cancelled) return conclude(kCancelled);
  const bool is_again = has_recurred(error, error_before_);
  const bool is_worth_repeating = is_left && !is_again && (has_trained_ || !would_recur(error));
  report({{"event", "error"},
          {"kind", to_string(error.kind)},
          {"text",
           error.message() +
               (is_worth_repeating ? "; the same command continues run " + run_.id.text : "") +
               (is_again ? "; run " + run_.id.text + " ended so the last time as well" : "")}});
  return conclude(error.kind == ErrorKind::unsupported && !has_run_ ? kEnvironmentUnusable
                                                                    : kWorkFailed);
}

}  // namespace autotuned::daemon
