// SPDX-License-Identifier: Apache-2.0
// The situation: the facts that a plugin gets with a question (plugins/sdk/README.md).
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "tuner/context.hpp"

namespace autotuned::tuner {

// Makes the situation for one plugin. `trials`: all trials of this run so far, of which it contains only those of the plugin. `places`:
// StepProfile::places of a trace.
[[nodiscard]] Json situation_for(const std::string& plugin, const SessionInput& input,
                                 const Configuration& incumbent, const Json& metrics,
                                 const Json& places, const std::vector<TrialRecord>& trials);

}  // namespace autotuned::tuner
