// SPDX-License-Identifier: Apache-2.0
// What a session is given: the job, the machine, and what earlier processes and runs found out. It does not change
// while the session runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/trial.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::tuner {

struct SessionInput {
  recipes::Recipe recipe;
  // The job is a script of the user: of the recipe only its name and what may be tuned means anything, and nothing can
  // be changed that needs another process. What is known of the job is in `job_facts`.
  bool is_script = false;
  std::vector<recipes::Knob> knobs;          // with their domains on this machine
  std::vector<std::string> supported_knobs;  // those that the trainer can change
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
  // Settings that nothing may be kept with: the check after an earlier training of the job failed with them.
  std::vector<Configuration> refused;
  // Measure at the end what each kept change gives: over the budget, and no part of the tuning time.
  bool is_ablated = false;
};

// Whether the job runs on a CUDA device, by the trainer's own words.
[[nodiscard]] bool is_on_gpu(const SessionInput& input);

// The memory that a candidate may use, of the device the job runs on; 0 when it is not known.
[[nodiscard]] std::int64_t memory_limit_bytes(const SessionInput& input);

// The memory that plugins may count on: no more than that, and where the recipe names no size, no more than
// the same share of what was free when the run began. 0 when it is not known.
[[nodiscard]] std::int64_t memory_to_plan_with_bytes(const SessionInput& input);

}  // namespace autotuned::tuner
