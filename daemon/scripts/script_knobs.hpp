// SPDX-License-Identifier: Apache-2.0
// The knobs of a script, as the agent in it tells them: with the script's own values, domains, classes and obstacles.
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::daemon {

struct ScriptKnobs {
  std::vector<recipes::Knob> knobs;  // sorted by name; those that are switched live
  Configuration starting;            // of each of them, the script's own value
  std::vector<std::string> notes;    // entries that cannot be used, and why
};

// Reads `knobs` and `configuration` of the agent's answer to `load`. An entry that is not a valid knob is left out with
// a note, and so is a knob that needs another process: a script has only one.
[[nodiscard]] ScriptKnobs script_knobs(const Json& facts);

}  // namespace autotuned::daemon
