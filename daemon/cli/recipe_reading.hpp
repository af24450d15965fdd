// SPDX-License-Identifier: Apache-2.0
// Reads a recipe for a command, and prints all mistakes in it at once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"
#include "daemon/guide/next_step.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// Returns the recipe, or nothing after it has printed the mistakes: on standard error as file:line:column lines or,
// with `as_json`, on standard output as {"ok": false, "diagnostics": [...]}. A recipe that another user owns or can
// write is refused (docs/security.md). With `plugins`, a name in tune.plugins that is not in this list is a mistake,
// too. `files`: whether the data and weights that the recipe names must exist.
[[nodiscard]] std::optional<recipes::Recipe> read_recipe_or_report(
    const std::filesystem::path& file, const std::vector<recipes::Knob>& knobs, bool as_json,
    const std::optional<std::vector<std::string>>& plugins = std::nullopt,
    recipes::NamedFiles files = recipes::NamedFiles::must_exist);

// Returns a function that says whether `check` would find no mistake in a recipe. It does not look at data and model,
// and prints nothing. Its first call looks for the knobs and plugins of this machine.
[[nodiscard]] IsSoundRecipe sound_recipe_test(const Machine& machine);

// Prints these mistakes in the same way; false when there are none.
bool report_problems(const std::vector<recipes::Diagnostic>& problems, bool as_json);

}  // namespace autotuned::daemon
