// SPDX-License-Identifier: Apache-2.0
// Reading a recipe for a command: mistakes go to the user, all in one go.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"
#include "daemon/guide/next_step.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// The recipe, or nothing after its mistakes were printed: on standard error as file:line:column lines, or
// on standard output as {"ok": false, "diagnostics": [...]} when `as_json`. A recipe that another user owns
// or can write is refused (docs/security.md). With `plugins`, a name in tune.plugins that is none of them is a
// mistake, too. `files`: whether data and weights that it names must be there.
[[nodiscard]] std::optional<recipes::Recipe> read_recipe_or_report(
    const std::filesystem::path& file, const std::vector<recipes::Knob>& knobs, bool as_json,
    const std::optional<std::vector<std::string>>& plugins = std::nullopt,
    recipes::NamedFiles files = recipes::NamedFiles::must_exist);

// Tells of a recipe whether `check` would find no mistake, apart from those in data and model, which it does not look at. The
// knobs and plugins that are here are looked for at its first call. Prints nothing.
[[nodiscard]] RecipeLook recipe_look(const Machine& machine);

// Prints these mistakes in the same way; false when there are none.
bool report_problems(const std::vector<recipes::Diagnostic>& problems, bool as_json);

}  // namespace autotuned::daemon
