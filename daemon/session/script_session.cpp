// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/script_session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/digest.hpp"
#include "base/identifier.hpp"
#include "base/machine/allocator_library.hpp"
#include "base/machine/machine.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/scripts/script_backend.hpp"
#include "daemon/session/history_ledger.hpp"
#include "daemon/session/known_best.hpp"
#include "daemon/session/plugin_advisors.hpp"
#include "daemon/session/refused_plugins.hpp"
#include "daemon/session/run_row.hpp"
#include "daemon/session/script_budget.hpp"
#include "daemon/session/script_identity.hpp"
#include "daemon/session/script_load.hpp"
#include "plugins/host/loader.hpp"
#include "storage/history.hpp"
#include "tuner/session.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;
using storage::RunState;

// How long the script waits for the blocks of another run before it measures beside them: at most one part of its
// budget in this many, because the script pays for the wait.
constexpr nanoseconds kMaxTurnWait = std::chrono::minutes(1);
constexpr int kMaxWaitShare = 10;
// From the end of the conversation with a script to the end of its process.
constexpr nanoseconds kMaxExitWait = std::chrono::seconds(2);
// The script may wait for what is written.
constexpr std::chrono::milliseconds kPatienceBesideScript{2'000};

// The recipe that stands for the script in the tuner.
recipes::Recipe tuned_as(const ScriptRequest& script, nanoseconds budget) {
  recipes::Recipe recipe;
  recipe.name = script.name;
  recipe.tune.budget = budget;
  recipe.tune.allow = script.allow;
  return recipe;
}

// The allocator with which the script was started. No knob changes it.
std::string allocator_here() {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  const std::string_view libraries = preloaded == nullptr ? "" : preloaded;
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    if (libraries.find(library.name) != std::string_view::npos) return std::string(library.name);
  }
  return "glibc";
}

// Where the script makes and calls its parts, for `autotuned patch`.
Json places_in(const Json& facts) {
  Json places = Json::object();
  for (const char* part : {"device", "roots", "optimizers", "loaders"})
    places[part] = member(facts, part);
  return places;
}

// The state of the run after the end of the script. A signal with which people stop programs interrupts the run, also
// as a shell reports it (exit code 128 + number). Any other signal means that the script crashed or was killed, any
// other exit code that it has finished.
RunState state_after(std::int64_t code, std::int64_t signal) {
  constexpr std::array kStops = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  constexpr std::int64_t kSignalBase = 128;  // of the exit code by which a shell tells a signal
  const auto is_stop = [&](std::int64_t number) {
    return std::ranges::find(kStops, number) != kStops.end();
  };
  if (signal == 0) return is_stop(code - kSignalBase) ? RunState::cancelled : RunState::finished;
  return is_stop(signal) ? RunState::cancelled : RunState::failed;
}

class ScriptSession {
 public:
  ScriptSession(const SessionRequest& request, SessionControl& control, Descriptor agent)
      : request_(request), control_(&control) {
    const auto event = [this](const char* name) {
      return [this, name](const std::string& text) { report({{"event", name}, {"text", text}}); };
    };
    job_.emplace(std::move(agent), control,
                 MeasurementLock(measurement_lock_file(), kMaxTurnWait, event("warning"),
                                 [this](const std::string& who) {
                                   report({{"event", "note"},
                                           {"text", "another run measures on this machine (" + who +
                                                        "): the runs take turns, and the "
                                                        "tuning of each takes longer"}});
                                 }));
  }

  void run();

 private:
  // Does the slow work, before the script has to wait.
  Result<void> prepare();
  Result<void> open_run();
  Result<void> close_abandoned(const storage::RunKey& key);
  // If no earlier run tells how long the script takes, but its variables tell its epochs: at most a part of the time
  // that the remaining ones take.
  Result<void> bound_budget();
  void set_budget(ScriptBudget budget);
  Result<void> tune();
  Result<tuner::SessionOutcome> search();
  // Tuning is over, and there is no outcome: says why, and lets go of the script.
  void give_up(const Error& error);
  // Waits for the end of the script, and stores it.
  void see_out();
  std::optional<std::string> wait_for_script();
  void take_steps();
  // Stores what the tuning has cost, and what it had no time for.
  void take_cost(const tuner::SessionOutcome& outcome);
  [[nodiscard]] std::string permission_note() const;
  void store();

  void report(const Json& event) { control_->report(event); }
  void tell(const std::string& note) {
    if (!note.empty()) report({{"event", "note"}, {"text", note}});
  }
  void warn(const std::vector<std::string>& sentences) {
    for (const std::string& text : sentences)
      report({{"event", "warning"}, {"text", text}});
  }

  SessionRequest request_;
  SessionControl* control_;
  std::optional<ScriptBackend> job_;  // nothing once tuning was given up
  SystemClock clock_;
  InstallationPaths paths_ = find_installation_paths();
  Machine machine_ = detect_machine();
  std::vector<plugins::FoundPlugin> plugins_;
  std::optional<storage::History> history_;
  Descriptor claim_;  // of the run: we are at work on it
  storage::RunRow run_;
  ScriptBudget budget_;
  // Since it was loaded: the time of the tuning begins with the search.
  std::int64_t steps_before_search_ = 0;
  MachineState before_search_;
  MachineState after_search_;
  bool has_run_ = false;
};

Result<void> ScriptSession::prepare() {
  auto history = storage::History::open_to_write(request_.history);
  if (!history) return tl::unexpected(history.error());
  history_.emplace(std::move(*history));
  history_->on_unreadable_row([this](const std::string& text) { warn({text}); });
  if (auto count = history_->interrupt_abandoned_trials(); !count) return forward_error(count);
  plugins_ = plugins::find_plugins(
      plugins::plugin_folders(request_.plugin_folders, paths_.built_in_plugins), request_.without,
      [this](const std::string& name) {
        report({{"event", "loading_plugin"}, {"plugin", name}});
      });
  report({{"event", "plugins_loaded"}});
  return {};
}

// A run whose session was killed: nobody goes on with it, for a script cannot be begun in its middle.
Result<void> ScriptSession::close_abandoned(const storage::RunKey& key) {
  auto left = history_->unfinished_run(key);
  if (!left) return forward_error(left);
  if (!*left) return {};
  auto known = history_->run((*left)->id.text);
  if (!known) return forward_error(known);
  if (!known->is_interrupted) return {};
  known->state = RunState::failed;
  known->error = "the session ended before the script did";
  known->ended_unix_ns = clock_.unix_time_ns();
  return history_->update_run(*known);
}

// Between the hello and the question for the step, while the script trains.
Result<void> ScriptSession::open_run() {
  const ScriptRequest& script = *request_.script;
  const std::string torch = get_string(job_->hello(), "libtorch").value_or("unknown");
  const std::string python = get_string(job_->hello(), "python").value_or("unknown");
  std::string content = script.content;
  if (content.empty()) {
    // `python -m`: the interpreter knows which file that is.
    content = sha256_hex_of_file(get_string(job_->hello(), "script").value_or("")).value_or("");
  }
  const storage::RunKey key{identity_of(script, content, python), machine_.key(torch),
                            to_line(Json{{"script", script.name}}), /*is_tune_only=*/false};
  auto stored = history_->put_environment({key.environment_key, machine_.to_json(), torch,
                                           get_string(job_->hello(), "trainer").value_or("")});
  if (!stored) return stored;
  const Json job = {{"kind", "script"},
                    {"name", script.name},
                    {"command", script.command},
                    {"content", content},
                    {"python", python},
                    {"torch", torch},
                    {"tune", {{"allow", script.allow}}}};
  stored = history_->put_recipe({key.recipe_hash, script.name, "", job});
  if (stored) stored = close_abandoned(key);
  if (!stored) return stored;
  run_.started_unix_ns = clock_.unix_time_ns();
  run_.id = make_run_id(run_.started_unix_ns);
  run_.recipe_hash = key.recipe_hash;
  run_.recipe_name = script.name;
  run_.environment_key = key.environment_key;
  run_.recipe = job;
  run_.is_retuned = request_.retune;
  run_.plan = key.plan;
  stored = history_->put_run(run_);
  if (!stored) return stored;
  has_run_ = true;
  // Claimed at once: to another session of this script, an unclaimed run looks like one whose session was killed.
  auto claimed = history_->claim(run_.id);
  if (!claimed) return forward_error(claimed);
  claim_ = *std::move(claimed);
  set_budget(choose_script_budget(script, *history_, run_));
  report({{"event", "run"},
          {"run", run_.id.text},
          {"recipe", run_.recipe_name},
          {"is_continued", false},
          {"state", storage::to_string(run_.state)},
          {"budget_ns", budget_.time.count()},
          {"budget_because", budget_.because}});
  auto told =
      record_refused_plugins(*history_, run_.id, plugins_, std::nullopt, clock_.unix_time_ns());
  if (!told) return forward_error(told);
  warn(*told);
  return history_->set_patience(
      [](std::chrono::milliseconds waited) { return waited < kPatienceBesideScript; });
}

void ScriptSession::set_budget(ScriptBudget budget) {
  budget_ = std::move(budget);
  run_.training["budget_ns"] = budget_.time.count();
  job_->limit_turn_wait(std::min(kMaxTurnWait, budget_.time / kMaxWaitShare));
}

Result<void> ScriptSession::bound_budget() {
  const Json& facts = job_->facts();
  const auto left = static_cast<double>(get_integer(facts, "most_samples_left").value_or(0));
  if (request_.script->budget || budget_.is_by_earlier_run || left <= 0.0) return {};
  const auto block = job_->run_block(job_->starting(), {});
  if (!block && block.error().kind == ErrorKind::cancelled) return forward_error(block);
  // A script that does not run as it is fails in the baseline, which says so.
  if (!block || !(block->samples_per_second() > 0.0)) return {};
  constexpr double kMaxSeconds = 1e9;  // of what a duration can hold
  const double seconds = std::min(kMaxSeconds, left / block->samples_per_second());
  const auto shorter = budget_within(nanoseconds(static_cast<std::int64_t>(seconds * 1e9)),
                                     get_string(facts, "most_told_by").value_or(""), budget_);
  if (!shorter) return {};
  set_budget({shorter->time, budget_.because});
  tell(shorter->note);
  return {};
}

Result<tuner::SessionOutcome> ScriptSession::search() {
  tuner::SessionInput input;
  input.recipe = tuned_as(*request_.script, budget_.time);
  input.is_script = true;
  input.is_budget_option = request_.script->budget.has_value();
  input.knobs = job_->knobs();
  for (const recipes::Knob& knob : input.knobs)
    input.supported_knobs.push_back(knob.name);
  input.machine = machine_;
  input.starting = job_->starting();
  input.job_facts = job_->facts();
  input.job_facts["allocator"] = allocator_here();
  input.coin_seed = std::random_device{}();
  input.is_ablated = request_.is_ablated;
  auto history =
      history_->earlier_trials(run_.environment_key, run_.recipe_hash, kHistoryTrials, run_.id);
  if (!history) return forward_error(history);
  input.history = *std::move(history);
  PluginAdvisors advisors(plugins_, std::nullopt);
  const auto note = add_known_best(*history_, run_, advisors.identities(), input);
  if (!note) return forward_error(note);
  tell(*note);
  HistoryLedger ledger(*history_, run_, plugins_, clock_,
                       [this](const Json& event) { report(event); });
  for (const StepsUnder& part : job_->steps_under())
    steps_before_search_ += part.steps;
  before_search_ = machine_beside_script(job_->hello());
  auto outcome = tuner::run_session(input, *job_, advisors, ledger, clock_);
  if (outcome) {
    after_search_ = machine_beside_script(job_->hello());
    const auto kept = keep_best(*history_, run_, *outcome, clock_.unix_time_ns());
    if (!kept) return forward_error(kept);
    tell(*kept);
  }
  return outcome;
}

Result<void> ScriptSession::tune() {
  if (auto loaded = job_->load(); !loaded) return loaded;
  warn(job_->notes(request_.script->allow));
  run_.training["places"] = places_in(job_->facts());
  run_.starting = job_->starting();
  if (!job_->has_samples()) run_.training["counted"] = "steps";
  if (auto bounded = bound_budget(); !bounded) return bounded;
  auto outcome = search();
  if (!outcome) return forward_error(outcome);
  take_outcome(*outcome, run_);
  const Configuration changed = run_.starting.change_to(run_.best);
  const std::string change = changed.empty() ? "" : change_text(run_.starting, changed);
  const std::string reason = change.empty() ? "nothing was kept" : "kept: " + change;
  if (auto finished = job_->finish(run_.best, reason, kept_json(run_)); !finished) return finished;
  auto recorded =
      record_load(*history_, run_, before_search_, after_search_, clock_.unix_time_ns());
  if (!recorded) warn({recorded.error().message()});
  take_steps();
  take_cost(*outcome);
  report({{"event", "tuned"},
          {"speedup", run_.speedup.ratio},
          {"speedup_low", run_.speedup.low},
          {"speedup_high", run_.speedup.high},
          {"is_from_history", outcome->is_from_history},
          {"is_budget_spent", outcome->is_budget_spent},
          {"is_complete", outcome->is_complete},
          {"untried", outcome->untried.size()},
          {"configuration", run_.best.to_json()},
          {"change", change},
          {"text", tuned_text(run_) + permission_note()}});
  return history_->update_run(run_);
}

// A note about changes that were not tried because they are not permitted.
std::string ScriptSession::permission_note() const {
  const bool is_left = std::ranges::any_of(job_->knobs(), [this](const recipes::Knob& knob) {
    const std::vector<std::string>& allow = request_.script->allow;
    return knob.risk == recipes::RiskClass::numerics && knob.unavailable.empty() && allow.empty();
  });
  return is_left ? "changes that round otherwise were not tried; --allow numerics permits them\n"
                 : "";
}

void ScriptSession::take_steps() {
  Json parts = Json::array();
  for (const StepsUnder& part : job_->steps_under()) {
    const Configuration change = run_.starting.change_to(part.configuration);
    parts.push_back({{"change", change.empty() ? "" : change_text(run_.starting, change)},
                     {"steps", part.steps}});
  }
  run_.training["steps_under"] = std::move(parts);
  run_.training["steps"] = job_->steps();
}

void ScriptSession::take_cost(const tuner::SessionOutcome& outcome) {
  // The steps of the tuning are steps of the training: the time that they would have taken without tuning is no cost.
  std::int64_t steps = 0;
  for (const StepsUnder& part : job_->steps_under())
    steps += part.steps;
  run_.training["tuned_steps"] = steps;
  if (run_.baseline_samples_per_second > 0.0) {
    const double made =
        static_cast<double>((steps - steps_before_search_) * job_->samples_per_step());
    const double anyway_ns = made / run_.baseline_samples_per_second * 1e9;
    const double cost_ns = static_cast<double>(run_.tuning_duration_ns) - anyway_ns;
    run_.training["tuning_cost_ns"] = static_cast<std::int64_t>(std::max(0.0, cost_ns));
  }
  run_.training.update(end_of_search(outcome, budget_.time, /*is_continued=*/false));
}

// How the script ended, if it does so within kMaxExitWait: " with exit status 2", " by signal 15 (Terminated)"; empty for 0.
std::optional<std::string> ScriptSession::wait_for_script() {
  if (!control_->wait_for_cancel(kMaxExitWait)) return std::nullopt;
  const Json& how = member(control_->cancel(), "script_ended");
  const std::int64_t code = get_integer(how, "code").value_or(0);
  const std::int64_t signal = get_integer(how, "signal").value_or(0);
  if (!how.is_object()) return std::nullopt;
  if (code == 0 && signal == 0) return "";
  return (signal == 0 ? " with " : " by ") +
         end_text(Json{{"exit_code", code}, {"signal", signal}});
}

// The agent puts the script back to its own configuration when our end of the socket closes.
void ScriptSession::give_up(const Error& error) {
  const std::optional<AgentEnd> end = job_->end();
  const bool is_begun = has_run_ && !run_.starting.empty();
  const bool has_pytorch = job_->hello().is_object();
  if (is_begun) take_steps();
  job_.reset();
  bool is_over = end && end->kind == AgentEnd::Kind::script_ended;
  std::string how;
  // The agent's last word, or the end of its socket, comes a little before the end of the process.
  const bool is_closed = end && end->kind == AgentEnd::Kind::closed && end->text.empty();
  if (is_over || is_closed) {
    const std::optional<std::string> ended = wait_for_script();
    is_over = is_over || ended.has_value();
    how = ended.value_or("");
  }
  std::string cause = end ? end->text : error.message();
  const bool has_told_why = is_over && !cause.empty();
  std::string by_script;  // what the script did, if it is the cause
  if (is_over && is_begun) {
    by_script = "ended" + how + " before its tuning did";
  } else if (end && !has_told_why && !has_pytorch) {
    // Its Python tells if it has no PyTorch.
    by_script = "ended" + how + " before it imported PyTorch";
  } else if (is_over && cause.empty()) {
    by_script = "ended" + how + " before a step of a training was recognised";
  } else if (cause.empty()) {
    cause = "the script has closed its connection to the run";
  } else if (has_told_why && !how.empty()) {
    cause += "; the script ended" + how;
  }
  if (!by_script.empty()) cause = by_script;
  std::string why = by_script.empty() ? cause : "it " + by_script;
  if (is_begun) why += "; what was tried is on record";
  report({{"event", "untuned"}, {"text", why}, {"is_begun", is_begun}});
  if (!has_run_) return;
  run_.training["untuned"] = why;
  run_.training[kUntunedCause] = cause;
  run_.training[kUntunedByScript] = !by_script.empty();
  run_.state = RunState::training;  // it goes on with that
  if (auto stored = history_->update_run(run_); !stored) warn({stored.error().message()});
}

void ScriptSession::store() {
  const Json how = member(control_->cancel(), "script_ended");
  const std::int64_t code = get_integer(how, "code").value_or(0);
  const std::int64_t signal = get_integer(how, "signal").value_or(0);
  run_.training["exit_code"] = code;
  run_.training["signal"] = signal;
  run_.ended_unix_ns = clock_.unix_time_ns();
  run_.state = state_after(code, signal);
  if (run_.state == RunState::failed) run_.error = "the script ended by " + end_text(run_.training);
  auto stored = history_->interrupt_running_trials(run_.id);
  auto updated = history_->update_run(run_);
  if (!stored) warn({stored.error().message()});
  if (!updated) warn({updated.error().message()});
}

void ScriptSession::see_out() {
  if (has_run_) {
    if (job_) {
      run_.training["is_counted_to_end"] = job_->see_out();
      run_.training["steps"] = job_->steps();
    }
    control_->wait_for_cancel();
    store();
  }
  report({{"event", "result"}, {"exit_code", 0}, {"run", has_run_ ? Json(run_.id.text) : Json()}});
}

void ScriptSession::run() {
  auto done = prepare();
  if (done) done = job_->greet();
  if (done) done = open_run();
  if (done) done = tune();
  if (!done) give_up(done.error());
  see_out();
}

}  // namespace

void run_script_session(const SessionRequest& request, SessionControl& control, Descriptor agent) {
  ScriptSession(request, control, std::move(agent)).run();
}

}  // namespace autotuned::daemon
