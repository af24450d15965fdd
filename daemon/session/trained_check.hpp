// SPDX-License-Identifier: Apache-2.0
// The check after the training: whether the kept configuration still trains like the starting one from the trained
// weights. An extension may have worked correctly only until then (docs/architecture.md, "Checks").
#pragma once

#include <chrono>

#include "base/json.hpp"
#include "storage/history.hpp"
#include "tuner/context.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// To be called right after the model was saved, while the trainer of the training is alive; it may have ended on
// return. `start`: how long it takes to start a trainer. Returns `training.check` of the run: `passed` (null: not
// made), `risk`, `steps`, `detail` and `parameters`, and after a failure `refused`, the settings to blame. Returns null
// if no knob that differs from the start needs a check, and the model keeps no steps of an extension that was found out.
// The check is not made if it would take longer than ten seconds and a hundredth of the training, or after a cancel.
[[nodiscard]] Json check_training(const storage::RunRow& run, const tuner::SessionInput& input,
                                  tuner::TrainingBackend& backend, std::chrono::nanoseconds start);

}  // namespace autotuned::daemon
