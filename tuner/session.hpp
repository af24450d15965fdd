// SPDX-License-Identifier: Apache-2.0
// A tuning session: baseline, profile, proposals, trials, confirmation. Decides; does no I/O itself.
//
// Called by the session process (daemon/session/session_process.cpp) with a real job, and by tests with
// simulated ones and a fake clock. Single-threaded.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/configuration.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "tuner/advisors.hpp"
#include "tuner/ledger.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

struct SessionInput {
  recipes::Recipe recipe;
  std::vector<recipes::Knob> knobs;       // with their domains on this machine
  std::vector<std::string> obeyed_knobs;  // those that the trainer can change
  // Of those, the ones that trainer extensions brought: EXTENSION.WORD.
  std::vector<std::string> extension_knobs;
  Machine machine;
  // Of the device that the job runs on, before anything of this run was there; 0: not known.
  std::int64_t memory_available_bytes = 0;
  Configuration starting;           // every knob
  Json job_facts = Json::object();  // the trainer's answer to `load`
  // What it took to start the trainer and load the recipe; 0: not known. What fresh processes will cost.
  std::chrono::nanoseconds start_time{0};
  std::uint64_t coin_seed = 1;  // for the order within pairs
  // What an earlier, interrupted process of the same run finished, in order; and the tuning time that
  // it used. `running` and `interrupted` trials are left out: they are tried again.
  std::vector<TrialRecord> earlier;
  std::chrono::nanoseconds earlier_tuning_time{0};
  int next_trial_number = 1;  // interrupted attempts keep theirs
  // The plugins' earlier trials in this environment (other runs), for the situation's "history".
  std::vector<TrialRecord> history;
  // A remembered best configuration: verified against the starting one and, when it holds, used
  // without a search.
  std::optional<Configuration> known_best;
  // The search that found it tried every proposal. Else the search goes on from it once it is verified, with what
  // earlier runs of the job decided in `decided`: those changes are not tried again.
  bool is_known_best_complete = true;
  std::vector<TrialRecord> decided;
  // Measure at the end what each kept change gives: over the budget, and no part of the tuning time.
  bool is_ablated = false;
};

struct SessionOutcome {
  Configuration best;  // what to train with; the starting configuration when nothing held
  double baseline_samples_per_second = 0.0;  // from the confirmation's blocks where there are any
  double best_samples_per_second = 0.0;
  Estimate speedup;  // best over starting, from fresh blocks; 1, 1, 1 when they are the same
  Ceiling ceiling;
  std::vector<TrialRecord> trials;  // of the whole run, the earlier ones included
  std::chrono::nanoseconds tuning_time{0};
  bool is_budget_spent = false;
  bool is_complete = false;      // no proposal was left untried
  bool is_from_history = false;  // known_best held
};

// Runs to the end of tuning. ErrorKind::cancelled when the job was asked to stop (the trial in progress
// has been recorded as interrupted); any other error means that not even the starting configuration
// runs, or that the ledger failed.
[[nodiscard]] Result<SessionOutcome> run_session(const SessionInput& input,
                                                 TrainingBackend& backend, Advisors& advisors,
                                                 Ledger& ledger, const Clock& clock);

}  // namespace autotuned::tuner
