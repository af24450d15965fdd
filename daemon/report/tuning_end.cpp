// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/tuning_end.hpp"

#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunState;

constexpr const char* kSessionEnded = "the session of the run ended before the tuning did";

// A script cannot be begun in its middle; a recipe is gone on with.
std::string why_text(const storage::RunRow& run) {
  if (!is_script(run.recipe)) {
    return run.state == RunState::failed
               ? "the run failed before its tuning was done"
               : "the tuning was stopped, and the same command goes on with it";
  }
  const auto cause = get_string(run.training, kUntunedCause);
  if (!cause) return get_string(run.training, "untuned").value_or(kSessionEnded);
  const bool is_by_script = get_bool(run.training, kUntunedByScript).value_or(false);
  return is_by_script ? run.recipe_name + " " + *cause : *cause;
}

}  // namespace

bool is_unconfirmed(const storage::RunRow& run) {
  if (!run.best.empty()) return false;
  const bool is_under_way = run.state == RunState::tuning || run.state == RunState::training;
  // The tuning of a script may have been given up while its training goes on.
  return !is_under_way || run.is_interrupted || run.training.contains("untuned");
}

std::string unconfirmed_text(const storage::RunRow& run, const std::vector<TrialRecord>& trials) {
  std::string text = why_text(run);
  const char* before = "; not confirmed: ";
  for (const TrialRecord& trial : trials) {
    if (trial.kind != TrialKind::proposal || trial.verdict != Verdict::accepted) continue;
    text +=
        before + change_text(trial.reference, trial.change) + ", " + estimate_text(trial.estimate);
    before = "; ";
  }
  return text;
}

RunsOfScript find_runs_of_script(const std::vector<storage::RunRow>& runs,
                                 const std::string& content, const std::string& name) {
  RunsOfScript found;
  for (const storage::RunRow& run : runs) {
    if (!is_script(run.recipe)) continue;
    const bool is_this = get_string(run.recipe, "content").value_or("") == content;
    if (run.best.empty()) {
      const bool is_tried = is_unconfirmed(run) && !run.starting.empty();
      if (is_this && is_tried && found.unconfirmed == nullptr) found.unconfirmed = &run;
    } else if (is_this) {
      found.tuned = &run;
      return found;
    } else if (found.of_other_text == nullptr && run.recipe_name == name) {
      found.of_other_text = &run;
    }
  }
  return found;
}

Result<std::set<std::string>> unconfirmed_of(const storage::History& history,
                                             const std::vector<storage::RunRow>& runs) {
  std::set<std::string> found;
  for (const storage::RunRow& run : runs) {
    if (run.best.empty() || run.speedup.pairs > 0) continue;
    const auto trials = history.trials(run.id);
    if (!trials) return forward_error(trials);
    if (lacks_confirmation(*trials)) found.insert(run.id.text);
  }
  return found;
}

}  // namespace autotuned::daemon
