// SPDX-License-Identifier: Apache-2.0
// Which variables of a trainer's environment may be set through the knobs env.NAME, and by whom.
#pragma once

#include <span>
#include <string_view>

namespace autotuned::recipes {

// Whether anybody may set it: of the form [A-Z0-9_]+, none by which a program loads code (docs/security.md),
// and none by which this program controls its trainers.
[[nodiscard]] bool is_settable_variable(std::string_view variable);

// Whether a plugin may propose it: one of variables_for_plugins(). A recipe is written by the user and may set others.
[[nodiscard]] bool is_variable_for_plugins(std::string_view variable);

// Names, and beginnings of names that end in '*', in order.
[[nodiscard]] std::span<const std::string_view> variables_for_plugins();

}  // namespace autotuned::recipes
