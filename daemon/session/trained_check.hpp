// SPDX-License-Identifier: Apache-2.0
// Whether the kept configuration still trains as the starting one does where the training has come to: an extension may behave
// until then (docs/architecture.md, "Checks").
#pragma once

#include <chrono>

#include "base/json.hpp"
#include "storage/history.hpp"
#include "tuner/context.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// To be asked right after the model was saved, while the trainer that trained is there; it may have ended afterwards. `start`
// is what it takes to start a trainer. Returns what is kept as `training.check` of the run: `passed` (null: not made), `risk`,
// `steps`, `detail` and `parameters`; of one that failed also `refused`, the settings to blame. Null where the kept
// configuration trains as the starting one by its own knobs. It is not made where it would take longer than ten seconds and a
// hundredth of the training. ErrorKind::cancelled is no error here: then it is not made either.
[[nodiscard]] Json check_training(const storage::RunRow& run, const tuner::SessionInput& input,
                                  tuner::TrainingBackend& backend, std::chrono::nanoseconds start);

}  // namespace autotuned::daemon
