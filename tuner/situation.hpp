// SPDX-License-Identifier: Apache-2.0
// What a plugin is told when it is asked (plugins/sdk/README.md).
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "tuner/context.hpp"

namespace autotuned::tuner {

// `trials` are those of this run so far, of whichever plugin; the situation holds the plugin's own. `places` are those
// of a trace (Profile::places).
[[nodiscard]] Json situation_for(const std::string& plugin, const SessionInput& input,
                                 const Configuration& incumbent, const Json& metrics,
                                 const Json& places, const std::vector<TrialRecord>& trials);

}  // namespace autotuned::tuner
