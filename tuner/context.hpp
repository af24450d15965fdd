// SPDX-License-Identifier: Apache-2.0
// The input of a session: the job, the machine, and what earlier processes and runs found. It does not change
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
  // The job is a script of the user. Then only name, tune.budget, tune.allow and tune.min_gain of `recipe` are
  // valid, no knob may need another process, and facts about the job are in `job_facts`.
  bool is_script = false;
  // `--budget` set the budget of `recipe`: not its own tune.budget, nor a share of the time of the script.
  bool is_budget_option = false;
  std::vector<recipes::Knob> knobs;          // with their domains on this machine
  std::vector<std::string> supported_knobs;  // knobs that the trainer can change
  // The knobs among them that trainer extensions brought: EXTENSION.WORD.
  std::vector<std::string> extension_knobs;
  Machine machine;
  // Free memory of the device that the job runs on, before this run used any of it; 0: not known.
  std::int64_t memory_available_bytes = 0;
  Configuration starting;           // a value for every knob
  Json job_facts = Json::object();  // the trainer's answer to `load`
  // The cost of a fresh process: the time to start the trainer and load the recipe. 0: not known.
  std::chrono::nanoseconds start_time{0};
  std::uint64_t coin_seed = 1;  // seed of the coin that decides the order within pairs
  // Trials that earlier, interrupted processes of the same run finished, in order, and the tuning time that
  // these processes used. `running` and `interrupted` trials are not among them: they are tried again.
  std::vector<TrialRecord> earlier;
  std::chrono::nanoseconds earlier_tuning_time{0};
  int next_trial_number = 1;  // interrupted trials keep their numbers
  // Earlier trials of other runs in this environment, for the situation's "history".
  std::vector<TrialRecord> history;
  // The stored best configuration. It is verified against the starting one and, if it holds, used without a
  // search.
  std::optional<Configuration> known_best;
  // Whether the search that found `known_best` tried every proposal. If not, the search goes on from it after
  // the verification, without the changes that earlier runs of the job decided (`decided`).
  bool is_known_best_complete = true;
  std::string known_best_run;  // the run whose search found `known_best`; empty: not known
  // `known_best` over the starting configuration, as an earlier run measured it; no pairs: not known.
  Estimate known_best_speedup;
  std::vector<TrialRecord> decided;
  // Settings that no kept configuration may contain: the check after an earlier training of the job failed
  // with them.
  std::vector<Configuration> refused;
  // Ablate each kept change after the confirmation (--ablate). Takes time beyond the budget, which is not
  // counted as tuning time.
  bool is_ablated = false;
};

// Whether the trainer says that the job runs on a CUDA device.
[[nodiscard]] bool is_on_gpu(const SessionInput& input);

// Whether a trainer extension brought the knob.
[[nodiscard]] bool is_of_extension(const SessionInput& input, const std::string& knob);
// Whether two configurations differ in such a knob.
[[nodiscard]] bool differ_in_extension(const SessionInput& input, const Configuration& one,
                                       const Configuration& other);

// The memory, in bytes, that a candidate may use of the device that the job runs on; 0: not known.
[[nodiscard]] std::int64_t memory_limit_bytes(const SessionInput& input);

// The memory, in bytes, that plugins may plan with: at most memory_limit_bytes() and, if the recipe gives no
// size, at most the same share of the memory that was free when the run began. 0: not known.
[[nodiscard]] std::int64_t memory_to_plan_with_bytes(const SessionInput& input);

}  // namespace autotuned::tuner
