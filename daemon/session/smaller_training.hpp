// SPDX-License-Identifier: Apache-2.0
// What a run trains with after its configuration ran out of memory in the training. Trials are short: what fitted there may
// not fit for hours, because memory comes to be in pieces, or because other programs take theirs.
#pragma once

#include <optional>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// The same with the next smaller batch size: the recipe's own (`starting`) or one that a trial of the run measured. Where there
// is none, the starting configuration, unless its batches are larger. Nothing is left after that. REQUIRES: `failed` and
// `starting` name every knob.
[[nodiscard]] std::optional<Configuration> after_out_of_memory(
    const Configuration& failed, const Configuration& starting,
    const std::vector<TrialRecord>& trials);

}  // namespace autotuned::daemon
