// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/run_row.hpp"

#include <algorithm>
#include <utility>

#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_time.hpp"
#include "daemon/session/output_folder.hpp"

namespace autotuned::daemon {

storage::RunRow new_run(const recipes::Recipe& as_given, const SessionRequest& request,
                        const storage::RunKey& key, const std::vector<recipes::Knob>& knobs,
                        std::int64_t started_unix_ns) {
  storage::RunRow run;
  run.id = make_run_id(started_unix_ns);
  run.started_unix_ns = started_unix_ns;
  run.recipe_hash = key.recipe_hash;
  run.recipe_name = request.recipe.name;
  run.environment_key = key.environment_key;
  run.recipe = as_given.to_json();
  run.output_dir = request.recipe.output_dir.string();
  run.starting = request.recipe.starting_configuration(knobs);
  run.is_retuned = request.retune;
  run.plan = key.plan;
  run.is_tune_only = key.is_tune_only;
  return run;
}

void take_outcome(const tuner::SessionOutcome& outcome, storage::RunRow& run) {
  run.state = storage::RunState::training;
  run.best = outcome.best;
  run.baseline_samples_per_second = outcome.baseline_samples_per_second;
  run.best_samples_per_second = outcome.best_samples_per_second;
  run.speedup = outcome.speedup;
  run.ceiling_samples_per_second = outcome.ceiling.samples_per_second;
  run.ceiling_bound_by = outcome.ceiling.bound_by;
  run.ceiling_ladder = tuner::ladder_json(outcome.ceiling);
  run.tuning_duration_ns = outcome.tuning_time.count();
  if (!outcome.searched_by.empty()) run.training[kSearchedBy] = outcome.searched_by;
}

bool take_end(const Error& error, std::int64_t ended_unix_ns, storage::RunRow& run) {
  using storage::RunState;
  if (error.kind == ErrorKind::cancelled) {
    run.error.clear();
    run.state = RunState::cancelled;
    return false;
  }
  run.error = error.message();
  // The run has trained, but not all of its results could be written: only that is left to do.
  if (run.state == RunState::finished) {
    run.state = RunState::training;
    run.ended_unix_ns = 0;
  }
  if (run.state == RunState::training || error.kind == ErrorKind::busy ||
      error.kind == ErrorKind::disk_full) {
    return true;
  }
  run.state = RunState::failed;
  run.ended_unix_ns = ended_unix_ns;
  return false;
}

bool would_recur(const Error& error) {
  if (error.is_disturbance) return false;
  // A training goes on without an extension that fails if it can.
  if (!error.extensions.empty()) return true;
  return error.kind == ErrorKind::invalid || error.kind == ErrorKind::corrupt ||
         error.kind == ErrorKind::newer_version || error.kind == ErrorKind::unsupported;
}

bool has_recurred(const Error& error, const std::string& before) {
  return error.kind == ErrorKind::internal && !error.is_disturbance && error.message() == before;
}

Json end_of_search(const tuner::SessionOutcome& outcome, std::chrono::nanoseconds budget,
                   bool is_continued) {
  Json untried = Json::array();
  for (const tuner::UntriedProposal& proposal : outcome.untried) {
    untried.push_back({{"plugin", proposal.plugin},
                       {"change", change_text(proposal.reference, proposal.change)}});
  }
  Json beyond = Json::array();
  for (const TrialRecord& trial : outcome.trials) {
    if (std::ranges::find(outcome.trials_beyond_budget, trial.number) ==
        outcome.trials_beyond_budget.end()) {
      continue;
    }
    const bool is_proposal = trial.kind == TrialKind::proposal;
    beyond.push_back({{"trial", trial.number},
                      {"by", is_proposal ? trial.plugin : std::string(to_string(trial.kind))}});
  }
  // "None" would say that nothing but measurements outside of trials took longer.
  if (is_continued && beyond.empty()) beyond = nullptr;
  Json end = {{"budget_ns", budget.count()},
              {"is_budget_spent", outcome.is_budget_spent},
              {kBeyondBudget, std::move(beyond)},
              {"untried", std::move(untried)}};
  if (!outcome.shortage.empty()) end[kShortage] = outcome.shortage;
  return end;
}

std::string best_comment(const storage::RunRow& run) {
  const std::string note = stand_in_note(run.recipe);
  const std::string fallback = fallback_text(run);
  const std::string left_out = left_out_text(run);
  const std::string speed =
      !left_out.empty() ? estimate_text(run.speedup) + " was " + left_out
      : run.speedup.pairs > 0
          ? estimate_text(run.speedup) + " the speed of the starting one"
          : "the starting one; no change was confirmed to be faster" +
                std::string(has_untried(run.training) ? " within the budget" : "");
  return std::string(kBestComment) + run.id.text + ": " + speed + ".\n" +
         (note.empty() ? "" : "Note: " + note + ".\n") +
         (fallback.empty() ? "" : "Warning: " + fallback + ". This is what it went on with.\n") +
         (has_failed_check(run) ? "Warning: " + trained_check_text(run) + ".\n" : "") +
         "It is a recipe: `autotuned run` takes it.";
}

}  // namespace autotuned::daemon
