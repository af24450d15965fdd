// SPDX-License-Identifier: Apache-2.0
// Chooses the configuration with which a training goes on after the one before has failed in it. A configuration that
// fitted in short trials may not fit for hours, because memory becomes fragmented or other programs take some. An
// extension may fail late, or do late what it must not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// Returns `failed` with the next smaller batch size: the recipe's own (`starting`) or one that a trial of the run
// measured. If there is none, the starting configuration, unless its batches are larger; after that, nothing. REQUIRES:
// `failed` and `starting` name every knob.
[[nodiscard]] std::optional<Configuration> after_out_of_memory(
    const Configuration& failed, const Configuration& starting,
    const std::vector<TrialRecord>& trials);

// Returns `failed` with `knobs`, which are those of the extensions that failed, as in `starting`. Nothing if they are
// that already, such as in a recipe that starts with them.
[[nodiscard]] std::optional<Configuration> without_extensions(
    const Configuration& failed, const Configuration& starting,
    const std::vector<std::string>& knobs);

// Returns the error that blames these extensions because the trainer has ended `ends` times in the training with them,
// the last time by `error`. That is a guess.
[[nodiscard]] Error suspicion(const Error& error, const std::vector<std::string>& extensions,
                              int ends);

// Returns `error`, by which the trainer ended after `ends` - 1 others, with the names of these extensions, which may be
// the cause, and the option that leaves them out.
[[nodiscard]] Error with_suspects(Error error, const std::vector<std::string>& extensions,
                                  int ends);

// Returns `error` with the option that leaves these extensions out as its remedy, beside the one that it has.
[[nodiscard]] Error with_option_to_leave_out(Error error,
                                             const std::vector<std::string>& extensions);

}  // namespace autotuned::daemon
