// SPDX-License-Identifier: Apache-2.0
// Chooses the configuration after the kept one ran out of memory in the training. A configuration that fitted in short
// trials may not fit for hours, because memory becomes fragmented or other programs take some.
#pragma once

#include <optional>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// Returns `failed` with the next smaller batch size: the recipe's own (`starting`) or one that a trial of the run
// measured. If there is none, the starting configuration, unless its batches are larger; after that, nothing. REQUIRES:
// `failed` and `starting` name every knob.
[[nodiscard]] std::optional<Configuration> after_out_of_memory(
    const Configuration& failed, const Configuration& starting,
    const std::vector<TrialRecord>& trials);

}  // namespace autotuned::daemon
