// SPDX-License-Identifier: Apache-2.0
// Which commands to type after a run.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

// Lines with commands: how to read the story of the run and, if it has trained a model for pictures, how to use the
// model. `result` is that of `run --json`.
[[nodiscard]] std::string next_commands(const Json& result);

}  // namespace autotuned::daemon
