// SPDX-License-Identifier: Apache-2.0
// What to type after a run.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

// Lines of commands for a run whose result is that of `run --json`: how to read its story and, where it has trained a model
// that takes pictures, how to use that.
[[nodiscard]] std::string next_commands(const Json& result);

}  // namespace autotuned::daemon
