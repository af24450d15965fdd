// SPDX-License-Identifier: Apache-2.0
// The variables of a trainer's environment that may be set through the knobs env.NAME, and by whom.
#pragma once

#include <span>
#include <string_view>

namespace autotuned::recipes {

// Whether the variable may be set at all: its name has the form [A-Z0-9_]+, no program loads code by it (docs/security.md), and this
// program does not control its trainers by it.
[[nodiscard]] bool is_settable_variable(std::string_view variable);

// Whether a plugin may propose the variable: it is in variables_for_plugins(). A recipe may set others, because the user writes it.
[[nodiscard]] bool is_variable_for_plugins(std::string_view variable);

// Returns names of variables, and beginnings of names, which end in '*'; sorted.
[[nodiscard]] std::span<const std::string_view> variables_for_plugins();

}  // namespace autotuned::recipes
