// SPDX-License-Identifier: Apache-2.0
// A tuning session: baseline, profile, proposals, trials, confirmation. It decides, and does no I/O itself.
//
// Called by the session process (daemon/session/running_session.cpp, script_session.cpp) with a real job, and by tests
// with simulated jobs and a simulated clock. Single-threaded.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/advisors.hpp"
#include "tuner/ceiling.hpp"
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/search.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// The result of a session.
struct SessionOutcome {
  Configuration best;  // to train with; the starting configuration if no change was confirmed
  double baseline_samples_per_second = 0.0;  // from the confirmation's blocks where there are any
  double best_samples_per_second = 0.0;
  Estimate speedup;  // best over starting, from fresh blocks; 1, 1, 1 when they are the same
  Ceiling ceiling;
  std::vector<TrialRecord> trials;  // trials of the whole run, including earlier processes
  std::chrono::nanoseconds tuning_time{0};
  bool is_searched = true;  // false: nothing was measured, because the budget was too small
  // If no trial of a proposal fitted into the budget: what it was too small for, and the budget that is needed. Else, and with a budget
  // of 0, empty.
  std::string shortage;
  bool is_budget_spent = false;
  // Numbers of the trials of this process that ended after the budget; ablations that were asked for have none.
  std::vector<int> trials_beyond_budget;
  // No proposal was left untried, no gain was left undecided, every plugin answered, and the last profile was taken, where
  // the job can be profiled.
  bool is_complete = false;
  // Proposals for which no budget was left, the most promising first.
  std::vector<UntriedProposal> untried;
  bool is_from_history = false;  // SessionInput::known_best was verified
  // SessionInput::known_best_run, if this session searched for nothing because that search was complete; else empty.
  std::string searched_by;
};

// Returns a warning about a budget before anything is measured: it is too small for any trial, so the run would only train, or too
// small for a trial that needs processes of its own. Returns "" if it is large enough. `start_time`: the time to start a trainer and
// load the recipe, or the part of it that is known; 0 if nothing is known.
[[nodiscard]] std::string budget_warning(std::chrono::nanoseconds budget, bool is_script,
                                         std::chrono::nanoseconds start_time);

// Runs the tuning to its end. With a budget of 0 it measures nothing and returns the starting configuration, because a stored one would
// have to be verified first. If a search would begin and the budget does not suffice for one trial, it measures only as much as it
// takes to know that. ErrorKind::cancelled: the job was asked to stop; the trial in progress is recorded as interrupted. Any other error
// means that the starting configuration does not run, or that the ledger failed.
[[nodiscard]] Result<SessionOutcome> run_session(const SessionInput& input,
                                                 TrainingBackend& backend, Advisors& advisors,
                                                 Ledger& ledger, const Clock& clock);

}  // namespace autotuned::tuner
