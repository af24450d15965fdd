// SPDX-License-Identifier: Apache-2.0
// Moments of a run at which a test kills a process, spread over all that the run does.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tests/integration/scene.hpp"

namespace autotuned {

// What a run of Scene::fast_job() is at: before its first trial; in the trial of a knob that is switched live, or of one
// that needs pairs of processes; in the confirmation; in the training.
enum class Phase { baseline, trial, processes, confirmation, training };

// Does such a run, and returns `wanted` of its requests to the trainer from each phase as conditions of a fault of the
// fake ("at"). They lie in the middle of equal parts of the phase: two runs differ in length, because the order of their
// blocks is drawn by a coin.
[[nodiscard]] std::vector<Json> moments_of_a_run(const std::map<Phase, int>& wanted);

// Where the newest run stands in the history: what it was at when it was killed. Nothing between two phases.
[[nodiscard]] std::optional<Phase> phase_of_last_run(const Scene& scene);

}  // namespace autotuned
