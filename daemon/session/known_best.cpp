// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/known_best.hpp"

#include <utility>

#include "daemon/session/known_knobs.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::int64_t kDecidedTrials = 200;

}  // namespace

Result<std::string> add_known_best(const storage::History& history, const storage::RunRow& run,
                                   tuner::SessionInput& input) {
  if (run.is_retuned) return std::string();
  auto best = history.best(run.recipe_hash, run.environment_key);
  if (!best) return tl::unexpected(best.error());
  if (!*best) return std::string();
  input.is_known_best_complete = (*best)->is_complete;
  if (!(*best)->is_complete) {
    auto decided = history.job_trials(run.environment_key, run.recipe_hash, kDecidedTrials, run.id);
    if (!decided) return tl::unexpected(decided.error());
    // What there was no time to decide is as good as untried.
    std::erase_if(*decided, [](const TrialRecord& trial) {
      return trial.rejection == RejectionReason::undecided_in_time;
    });
    input.decided = *std::move(decided);
  }
  // A run that is continued has begun without it, or has verified it.
  if (!input.earlier.empty()) return std::string();
  // It may be from before a plugin was removed.
  input.known_best = known_best(input.knobs, run.starting, (*best)->best);
  if ((*best)->is_complete) return std::string();
  return "the search of run " + (*best)->run.text +
         " did not try every proposal; this one goes on with it";
}

}  // namespace autotuned::daemon
