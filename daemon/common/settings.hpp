// SPDX-License-Identifier: Apache-2.0
// -s KNOB=VALUE: starting values from the command line.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// Sets each KNOB=VALUE over the recipe's own start; of several values for a knob the last one counts. `batch_size`
// replaces the recipe's. ErrorKind::invalid or `unsupported` names the setting and the nearest knob, or the domain of
// the knob on this machine.
[[nodiscard]] Result<void> apply_settings(const std::vector<std::string>& settings,
                                          const std::vector<recipes::Knob>& knobs,
                                          recipes::Recipe& recipe);

}  // namespace autotuned::daemon
