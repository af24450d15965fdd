// SPDX-License-Identifier: Apache-2.0
// What a plugin is told when it is asked (plugins/sdk/README.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "tuner/session.hpp"

namespace autotuned::tuner {

// The memory that a candidate may use, of the device the job runs on; 0 when it is not known.
[[nodiscard]] std::int64_t memory_limit_bytes(const SessionInput& input);

// The memory that plugins may count on: no more than that, and where the recipe names no size, no more than
// the same share of what was free when the run began. 0 when it is not known.
[[nodiscard]] std::int64_t memory_to_plan_with_bytes(const SessionInput& input);

// Whether the job runs on a CUDA device, by the trainer's own words.
[[nodiscard]] bool is_on_gpu(const SessionInput& input);

// `trials` are those of this run so far, of whichever plugin; the situation holds the plugin's own. `places` are those
// of a trace (Profile::places).
[[nodiscard]] Json situation_for(const std::string& plugin, const SessionInput& input,
                                 const Configuration& incumbent, const Json& metrics,
                                 const Json& places, const std::vector<TrialRecord>& trials);

}  // namespace autotuned::tuner
