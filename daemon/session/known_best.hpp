// SPDX-License-Identifier: Apache-2.0
// What earlier runs of a job have found, for a run that is about to be tuned.
#pragma once

#include <string>

#include "base/result.hpp"
#include "storage/history.hpp"
#include "tuner/context.hpp"

namespace autotuned::daemon {

// Puts the remembered best configuration into `input`, whose recipe, job facts, knobs and earlier trials are set: nothing
// for a run that was begun to search anew, no knob that is not there any more, and no change whose one-time cost this
// training does not repay. Returns what to say where this run goes on with the search that found it, because that was cut
// short or was for a training of another length; else an empty text.
[[nodiscard]] Result<std::string> add_known_best(const storage::History& history,
                                                 const storage::RunRow& run,
                                                 tuner::SessionInput& input);

}  // namespace autotuned::daemon
