// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/running_session.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/identifier.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/machine_state.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/output_space.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_time.hpp"
#include "daemon/session/continued_run.hpp"
#include "daemon/session/history_ledger.hpp"
#include "daemon/session/known_best.hpp"
#include "daemon/session/known_knobs.hpp"
#include "daemon/session/output_folder.hpp"
#include "daemon/session/plugin_advisors.hpp"
#include "daemon/session/refused_plugins.hpp"
#include "daemon/session/run_row.hpp"
#include "daemon/session/session_control.hpp"
#include "daemon/session/session_device.hpp"
#include "daemon/session/session_spec.hpp"
#include "daemon/session/trained_check.hpp"
#include "daemon/trainers/data_check.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "recipes/recipe_yaml.hpp"
#include "tuner/session.hpp"

namespace autotuned::daemon {

using std::chrono::nanoseconds;
using storage::RunState;

Result<int> RunningSession::run() {
  if (auto opened = open_history(); !opened) return end_with(opened.error());
  if (request_.extends) {
    auto checked = check_length_of_sequel(*history_, request_, recipe_as_given_.hash());
    if (!checked) return end_with(checked.error());
  }
  if (auto locked = device_.lock(); !locked) return end_with(locked.error());
  if (auto opened = open_output(); !opened) return end_with(opened.error());
  state_at_start_ = read_machine_state();
  if (auto started = start_job(); !started) return end_with(started.error());
  if (auto opened = open_run(); !opened) return end_with(opened.error());
  // The run has ended, but its process was killed before it reported that.
  if (run_.state == RunState::failed) return conclude(1);
  if (run_.state == RunState::finished) {
    has_trained_ = true;
    auto concluded = conclude_finished(kept_training());
    if (!concluded) return end_with(concluded.error());
    return concluded;
  }
  if (auto checked = check_space(); !checked) return end_with(checked.error());
  if (run_.state == RunState::tuning) {
    if (auto loaded = load_plugins(); !loaded) return end_with(loaded.error());
    if (auto tuned = tune(); !tuned) return end_with(tuned.error());
  }
  if (!request_.tune_only) {
    if (auto trained = train(); !trained) return end_with(trained.error());
    has_trained_ = true;
  }
  const std::string kept = kept_training();
  if (kept.empty()) {
    if (auto written = write_best(); !written) return end_with(written.error());
  }
  if (!request_.tune_only) {
    if (auto saved = save_model(); !saved) return end_with(saved.error());
    if (auto checked = check_trained_model(); !checked) return end_with(checked.error());
  }
  auto finished = finish(kept);
  if (!finished) return end_with(finished.error());
  return finished;
}

Result<void> RunningSession::open_history() {
  auto history = storage::History::open_to_write(request_.history);
  if (!history) return forward_error(history);
  history_.emplace(std::move(*history));
  history_->on_unreadable_row([this](const std::string& text) { warn({text}); });
  // Runs of other jobs may never be continued, so their trials that were running when their process died are ended
  // here.
  return history_->interrupt_abandoned_trials().map([](int) {});
}

Result<void> RunningSession::open_output() {
  // This check comes before open_output_folder(), which makes the folder.
  if (request_.extends) {
    if (auto there = check_place_of_sequel(request_.recipe); !there) return there;
  }
  auto recipe_stays = check_place_of_best(request_.recipe.output_dir, request_.recipe.file);
  if (!recipe_stays) return recipe_stays;
  auto inputs_stay = check_input_files(request_.recipe, request_.history, !request_.tune_only);
  if (!inputs_stay) return inputs_stay;
  auto output = open_output_folder(request_.recipe.output_dir, holder_text());
  if (!output) return forward_error(output);
  output_ = *std::move(output);
  if (!request_.tune_only) {
    if (auto checked = check_place_of_model(model()); !checked) return checked;
  }
  if (!output_.problem.empty()) {
    warn({"another run may write into the same folder: " + output_.problem});
  }
  return {};
}

// The job, with its first trainer.
Result<void> RunningSession::start_job() {
  auto spec = session_spec(request_, machine_, paths_, knobs_, trainer_plugins_);
  if (!spec) return forward_error(spec);
  spec->folder = output_.log;
  spec->on_damage = [this](Json damaged) {
    damaged["event"] = "damaged";
    report(damaged);
  };
  spec->on_trainer_end = [this](TrainerEnd end) { take_trainer_end(std::move(end)); };
  spec->on_warning = [this](const std::string& text) { warn({text}); };
  job_.emplace(*std::move(spec), *control_);
  report({{"event", "phase"}, {"phase", "loading"}, {"recipe", request_.recipe.name}});
  const auto started =
      start_on(device_, *job_, request_.recipe.starting_configuration(knobs_),
               output_.lock.is_open() ? std::vector{output_.lock.get()} : std::vector<int>());
  if (!started) {
    return tl::unexpected(as_recipe_problem(started.error(), request_.recipe, knobs_,
                                            trainer_plugins_,
                                            [this](const std::string& other) { warn({other}); }));
  }
  start_time_ = *started;
  found_device_ = device_findings(request_.recipe, job_->hello(), job_->facts(), machine_,
                                  is_gpu_there(machine_));
  for (const MachineFinding& finding : found_device_)
    warn({finding.subject + ": " + finding.text});
  return {};
}

Result<void> RunningSession::open_run() {
  const std::string libtorch = get_string(job_->hello(), "libtorch").value_or("unknown");
  const std::string environment = machine_.key(libtorch);
  const std::string recipe_hash = recipe_as_given_.hash();
  auto stored = history_->put_environment({environment, machine_.to_json(), libtorch,
                                           get_string(job_->hello(), "trainer").value_or("")});
  if (!stored) return stored;
  stored = history_->put_recipe({recipe_hash, recipe_as_given_.name, recipe_as_given_.file.string(),
                                 recipe_as_given_.to_json()});
  if (!stored) return stored;

  if (request_.extends) {
    // A run that was killed at its end has not renamed its state yet.
    if (output_.lock.is_open()) remove_spent_checkpoints(*history_, request_.recipe.output_dir);
    auto found = find_sequel(*history_, request_, recipe_hash);
    if (!found) return tl::unexpected(found.error());
    if (auto checked = check_patience_of(*found, request_.recipe); !checked) return checked;
    auto checked = check_schedule_of(*found, request_.recipe, job_->facts());
    if (!checked) return checked;
    sequel_ = *std::move(found);
  }
  const storage::RunKey key{recipe_hash, environment,
                            sequel_ ? plan_of(request_.recipe, sequel_->run, sequel_->schedule)
                                    : plan_of(request_.recipe),
                            request_.tune_only};
  auto unfinished = claim_run(*history_, request_, key);
  if (!unfinished) return tl::unexpected(unfinished.error());
  const bool is_continued = unfinished->run.has_value();
  if (is_continued) {
    claim_ = std::move(unfinished->claim);
    stored = continue_run(*std::move(unfinished->run));
  } else {
    auto other = history_->other_unfinished_run(key);
    if (!other) return tl::unexpected(other.error());
    if (*other) warn({other_run_text(**other)});
    stored = begin_run(key);
    if (stored && !sequel_) {
      const std::string changed = changed_files_text(*history_, run_);
      if (!changed.empty()) warn({changed});
    }
  }
  if (!stored) return stored;
  has_run_ = true;
  if (output_.lock.is_open()) {
    name_holder(output_.lock, holder_text());
    remove_spent_checkpoints(*history_, request_.recipe.output_dir);
  }
  Json told = {{"event", "run"},
               {"run", run_.id.text},
               {"recipe", run_.recipe_name},
               {"is_continued", is_continued},
               {"state", storage::to_string(run_.state)},
               {"device", get_string(job_->facts(), "device").value_or("?")}};
  if (request_.recipe.train.ranks > 1) {
    told["ranks"] = request_.recipe.train.ranks;
    told["batch_size"] = request_.recipe.train.batch_size;
  }
  report(told);
  if (sequel_) {
    report({{"event", "note"}, {"text", sequel_text(*sequel_)}});
    if (sequel_->base) {
      const auto best = history_->best(recipe_hash, environment);
      if (!best) return tl::unexpected(best.error());
      const std::string faster = faster_known_text(*best, *sequel_->base);
      if (!faster.empty()) report({{"event", "note"}, {"text", faster}});
    }
  } else if (!is_continued && !request_.tune_only) {
    // A longer training may be meant to go on with the one that is there.
    const auto other = find_sequel(*history_, request_, recipe_hash);
    if (other && other->base)
      report({{"event", "note"}, {"text", extendable_text(*other, request_.recipe)}});
  }
  // Another run may have trained there since this one was interrupted.
  if (run_.state == RunState::tuning || run_.state == RunState::training) {
    const std::string replaced = replaced_model_text(*history_, run_);
    if (!replaced.empty()) warn({replaced});
  }
  return history_->set_patience(patience_of(*control_, history_->path()));
}

Result<void> RunningSession::begin_run(const storage::RunKey& key) {
  run_ = new_run(recipe_as_given_, request_, key, knobs_, clock_.unix_time_ns());
  warn(drop_unknown_knobs(knobs_, request_.recipe, /*trials=*/{}, run_));  // of --without
  if (sequel_) {
    // A sequel that was begun on another machine begins again here.
    if (!sequel_->base) {
      auto base = history_->run(sequel_->run);
      if (!base) return tl::unexpected(base.error());
      sequel_->base = *std::move(base);
    }
    warn(take_over(*sequel_->base, knobs_, run_));
    auto fits = check_values(knobs_, run_.best, sequel_->run, "train anew, without --extend");
    if (!fits) return fits;
  }
  if (auto stored = history_->put_run(run_); !stored) return stored;
  return claim_new_run();
}

Result<void> RunningSession::claim_new_run() {
  return history_->claim(run_.id).map([this](Descriptor claimed) { claim_ = std::move(claimed); });
}

Result<void> RunningSession::continue_run(storage::RunRow row) {
  run_ = std::move(row);
  run_.is_interrupted = false;  // we are at work on it now
  run_.is_tune_only = request_.tune_only;
  if (run_.state == RunState::finished || run_.state == RunState::failed) return {};
  error_before_ = std::exchange(run_.error, {});
  if (run_.state == RunState::cancelled) {
    run_.state = run_.best.empty() ? RunState::tuning : RunState::training;
  }
  auto stored = put_faults(*history_, run_.id, request_.faults, clock_.unix_time_ns());
  if (!stored) return stored;
  for (const PluginFault& fault : request_.faults) {
    report({{"event", "answered"},
            {"plugin", fault.plugin},
            {"outcome", fault.outcome},
            {"is_failure", true}});
  }
  // A plugin that failed once stays out for the rest of the run.
  auto answers = history_->plugin_answers(run_.id);
  if (!answers) return tl::unexpected(answers.error());
  for (const auto& answer : *answers) {
    if (answer.is_failure) request_.without.push_back(answer.plugin);
  }
  if (auto count = history_->interrupt_running_trials(run_.id); !count) {
    return tl::unexpected(count.error());
  }
  // The numbers of lost trials are those of the run in which the session died.
  if (run_.id.text == request_.continue_run) {
    stored = fail_lost_trials(*history_, run_.id, request_.lost_trials);
    if (!stored) return stored;
  }
  auto trials = trials_of(*history_, run_.id);
  if (!trials) return tl::unexpected(trials.error());
  earlier_ = std::move(*trials);
  warn(drop_unknown_knobs(knobs_, request_.recipe, earlier_, run_));
  // The limits of this process may be other ones than those of the process before.
  auto fits = check_values(knobs_, run_.best.empty() ? run_.starting : trained_configuration(run_),
                           run_.id.text, "begin anew with --retune");
  if (!fits) return fits;
  return history_->update_run(run_);
}

// Before the tuning: a full disk costs less here than at the end of the training.
Result<void> RunningSession::check_space() {
  if (request_.tune_only) return {};
  std::error_code none;  // the first checkpoint replaces the one that is there
  const std::uintmax_t known = std::filesystem::file_size(checkpoint(), none);
  const auto finding =
      output_space(request_.recipe, get_integer(job_->facts(), "parameter_bytes").value_or(0),
                   none ? 0 : static_cast<std::int64_t>(known));
  if (!finding) return {};
  if (finding->is_certain) {
    return fail(ErrorKind::disk_full, finding->text, request_.recipe.output_dir.string(),
                kSpaceRemedy);
  }
  warn({request_.recipe.output_dir.string() + ": " + finding->text + "; " + kSpaceRemedy});
  return {};
}

void RunningSession::take_event_of_search(const Json& event) {
  const std::string name = get_string(event, "event").value_or("");
  if (name == "trial_started") {
    trial_ = static_cast<int>(get_integer(member(event, "trial"), "number").value_or(0));
  } else if (name == "trial_finished") {
    trial_ = 0;
  }
  report(event);
}

void RunningSession::take_trainer_end(TrainerEnd end) {
  end.ended_unix_ns = clock_.unix_time_ns();
  Json event = end.evidence();
  event["event"] = "trainer_ended";
  event["outcome"] = to_string(end.outcome);
  event["trial"] = trial_;
  // The end of a trainer is only evidence: the verdict of the trial is stored in any case.
  if (has_run_) {
    if (auto stored = history_->put_trainer_end({run_.id, trial_}, end); !stored) {
      warn({stored.error().message()});
    }
  }
  report(event);
}

Result<void> RunningSession::record_findings(const std::vector<MachineFinding>& findings) {
  for (const MachineFinding& finding : findings) {
    const std::string text = finding.subject + ": " + finding.text;
    storage::PluginAnswerRow row;
    row.plugin = storage::kMachineName;
    row.kind = storage::AnswerKind::machine;
    row.subject = finding.subject;
    row.asked_unix_ns = clock_.unix_time_ns();
    if (auto stored = history_->put_plugin_asked(run_.id, row); !stored) return stored;
    auto stored = history_->put_plugin_answered(run_.id, row.plugin, text, false);
    if (!stored) return stored;
    report({{"event", "machine"}, {"subject", finding.subject}, {"text", finding.text}});
  }
  return {};
}

Result<void> RunningSession::load_plugins() {
  plugins_ = plugins::find_plugins(
      plugins::plugin_folders(request_.plugin_folders, paths_.built_in_plugins), request_.without,
      [this](const std::string& name) {
        report({{"event", "loading_plugin"}, {"plugin", name}});
      });
  report({{"event", "plugins_loaded"}});
  return record_refused_plugins(*history_, run_.id, plugins_, request_.recipe.tune.plugins,
                                clock_.unix_time_ns())
      .map([this](const std::vector<std::string>& told) { warn(told); });
}

tuner::SessionInput RunningSession::job_input() const {
  tuner::SessionInput input;
  input.recipe = request_.recipe;
  input.knobs = knobs_;
  input.extension_knobs = extension_knobs(trainer_plugins_);
  input.machine = machine_;
  input.starting = run_.starting;
  input.job_facts = job_->facts();
  return input;
}

// The job as the search takes it: what this process can do, and what earlier runs and processes found out.
Result<tuner::SessionInput> RunningSession::search_input(const PluginAdvisors& advisors) {
  tuner::SessionInput input = job_input();
  for (const Json& name : member(job_->hello(), "knobs")) {
    if (name.is_string()) input.supported_knobs.push_back(name.get<std::string>());
  }
  input.supported_knobs.insert(input.supported_knobs.end(), input.extension_knobs.begin(),
                               input.extension_knobs.end());
  input.memory_available_bytes = state_at_start_.memory_available_bytes;
  if (const std::string used = device_.gpu(); !used.empty()) {
    const auto found = std::ranges::find(state_at_start_.gpus, used, &GpuState::uuid);
    input.memory_available_bytes =
        found == state_at_start_.gpus.end() ? 0 : found->memory_free_bytes;
  }
  input.start_time = start_time_;
  input.coin_seed = std::random_device{}();
  input.is_ablated = request_.is_ablated;
  input.is_budget_option = request_.recipe_budget.has_value();
  // A trial whose row cannot be read keeps its number: no new trial gets that.
  const auto last_number = history_->last_trial_number(run_.id);
  if (!last_number) return tl::unexpected(last_number.error());
  input.next_trial_number = *last_number + 1;
  input.earlier_tuning_time = earlier_tuning_time(run_, earlier_);
  input.earlier = decided_earlier();
  if (input.recipe.tune.budget.count() > 0) {
    auto history =
        history_->earlier_trials(run_.environment_key, run_.recipe_hash, kHistoryTrials, run_.id);
    if (!history) return tl::unexpected(history.error());
    input.history = std::move(*history);
    const auto note = add_known_best(*history_, run_, advisors.identities(), input);
    if (!note) return tl::unexpected(note.error());
    if (!note->empty()) report({{"event", "note"}, {"text", *note}});
  }
  return input;
}

// The trials that earlier processes of this run decided; each is reported.
std::vector<TrialRecord> RunningSession::decided_earlier() {
  std::vector<TrialRecord> decided;
  for (const TrialRecord& trial : earlier_) {
    if (trial.verdict == Verdict::running || trial.verdict == Verdict::interrupted) continue;
    auto known = known_trial(knobs_, run_.starting, trial);
    if (!known) continue;
    report({{"event", "earlier_trial"},
            {"trial", known->to_json(run_.id.text)},
            {"drops_change", known->kind == TrialKind::ablation && drops_its_change(*known)}});
    decided.push_back(*std::move(known));
  }
  return decided;
}

Result<void> RunningSession::tune() {
  PluginAdvisors advisors(plugins_, request_.recipe.tune.plugins);
  const auto input = search_input(advisors);
  if (!input) return tl::unexpected(input.error());
  HistoryLedger ledger(*history_, run_, plugins_, clock_,
                       [this](const Json& event) { take_event_of_search(event); });
  std::vector<MachineFinding> findings = findings_at(state_at_start_, device_.gpu());
  std::ranges::move(found_device_, std::back_inserter(findings));
  if (auto told = record_findings(findings); !told) return told;
  const nanoseconds began = clock_.now();
  auto outcome = tuner::run_session(*input, *job_, advisors, ledger, clock_);
  if (!outcome) {
    // The same command continues with the rest of the budget.
    const nanoseconds spent = input->earlier_tuning_time + (clock_.now() - began);
    run_.tuning_duration_ns = spent.count();
  }
  const MachineState state_at_end = read_machine_state();
  // Without a search nothing was measured that the load of the machine could disturb.
  const bool is_measured = !outcome || outcome->is_searched;
  auto told =
      record_findings(is_measured ? findings_between(state_at_start_, state_at_end, device_.gpu())
                                  : std::vector<MachineFinding>());
  if (!outcome) return tl::unexpected(outcome.error());
  if (!told) return told;
  return store_outcome(*outcome, state_at_end, input->earlier_tuning_time > nanoseconds{0});
}

// What the search came to, and its best configuration for later runs.
Result<void> RunningSession::store_outcome(const tuner::SessionOutcome& outcome,
                                           const MachineState& state_at_end, bool is_continued) {
  take_outcome(outcome, run_);
  // Stored at once: a run may not train, or another process may.
  run_.training.update(end_of_search(outcome, request_.recipe.tune.budget, is_continued));
  const auto busy = other_work_ratio(state_at_start_, state_at_end);
  if (busy && outcome.is_searched) {
    run_.training["tuning_other_work_ratio"] = *busy;
  }
  auto ceiling = history_->put_ceiling(run_.id, run_.ceiling_samples_per_second,
                                       run_.ceiling_bound_by, run_.ceiling_ladder);
  if (!ceiling) return ceiling;
  if (auto stored = history_->update_run(run_); !stored) return stored;
  const auto kept = keep_best(*history_, run_, outcome, clock_.unix_time_ns());
  if (!kept) return tl::unexpected(kept.error());
  if (!kept->empty()) report({{"event", "note"}, {"text", *kept}});
  report({{"event", "tuned"},
          {"speedup", run_.speedup.ratio},
          {"speedup_low", run_.speedup.low},
          {"speedup_high", run_.speedup.high},
          {"is_from_history", outcome.is_from_history},
          {"is_searched", outcome.is_searched},
          {kSearchedBy, outcome.searched_by},
          {kShortage, outcome.shortage},
          {"is_budget_spent", outcome.is_budget_spent},
          {"is_complete", outcome.is_complete},
          {"untried", outcome.untried.size()},
          {"configuration", run_.best.to_json()},
          {"change", change_text(run_.starting, run_.starting.change_to(run_.best))}});
  return {};
}

}  // namespace autotuned::daemon
