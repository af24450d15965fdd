// SPDX-License-Identifier: Apache-2.0
// The names and values that a YAML plugin may use, so that a misspelt one is found when its file is read.
// A knob whose first word no built-in knob has may be that of an extension: such names and their values stay open.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugins/host/expression.hpp"
#include "plugins/host/values.hpp"

namespace autotuned::plugins {

// Each returns what is wrong, with the nearest name that is right; nothing if it is right.

// A metric, a member of the situation's sections, or a knob.
[[nodiscard]] std::optional<std::string> why_unknown(const Fact& fact);
[[nodiscard]] std::optional<std::string> why_no_knob(std::string_view name);
// A value that this knob has on no machine. What only this machine lacks is left out when the plugin is asked.
[[nodiscard]] std::optional<std::string> why_no_value(std::string_view name,
                                                      const Values::Literal& value);

}  // namespace autotuned::plugins
