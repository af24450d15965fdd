// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/known_best.hpp"

#include <optional>
#include <utility>

#include "daemon/session/known_knobs.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::int64_t kDecidedTrials = 200;

// Of the training of a run of this job; 0: not known.
std::int64_t samples_of(const storage::History& history, const std::string& run,
                        const Json& job_facts) {
  const auto row = history.run(run);
  if (!row) return 0;
  const auto recipe = recipes::Recipe::from_json(row->recipe);
  return recipe ? tuner::training_samples(*recipe, job_facts) : 0;
}

}  // namespace

Result<std::string> add_known_best(const storage::History& history, const storage::RunRow& run,
                                   tuner::SessionInput& input) {
  if (run.is_retuned) return std::string();
  auto best = history.best(run.recipe_hash, run.environment_key);
  if (!best) return tl::unexpected(best.error());
  if (!*best) return std::string();
  auto decided = history.job_trials(run.environment_key, run.recipe_hash, kDecidedTrials, run.id);
  if (!decided) return tl::unexpected(decided.error());

  const std::string& found_by = (*best)->run.text;
  std::string why_on;
  if (!(*best)->is_complete)
    why_on = "the search of run " + found_by + " did not try every proposal";
  // It may be from before a plugin was removed.
  std::optional<Configuration> known = known_best(input.knobs, run.starting, (*best)->best);
  const std::int64_t samples = tuner::training_samples(input.recipe, input.job_facts);
  if (known) {
    const Configuration whole = *known;
    known = tuner::without_unrepaid(whole, run.starting, *decided, samples);
    if (*known != whole) {
      why_on = "this training is too short to repay " + known->change_to(whole).canonical_text() +
               " of run " + found_by;
    } else if (samples > samples_of(history, found_by, input.job_facts) &&
               tuner::lacks_repaid(whole, *decided, samples)) {
      why_on = "run " + found_by + " trained less, and lacks what only a longer training repays";
    }
  }
  input.is_known_best_complete = why_on.empty();
  if (!why_on.empty()) {
    // What there was no time to decide, or what only this training repays, is as good as untried.
    std::erase_if(*decided, [samples](const TrialRecord& trial) {
      return trial.rejection == RejectionReason::undecided_in_time ||
             (trial.rejection == RejectionReason::not_repaid &&
              tuner::repayment_of(trial, samples).is_repaid());
    });
    input.decided = *std::move(decided);
  }
  // A run that is continued has begun without it, or has verified it.
  if (!input.earlier.empty()) return std::string();
  input.known_best = std::move(known);
  return why_on.empty() ? why_on : why_on + "; this one goes on with the search";
}

}  // namespace autotuned::daemon
