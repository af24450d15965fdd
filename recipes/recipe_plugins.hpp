// SPDX-License-Identifier: Apache-2.0
// Checks the names of plugins in a recipe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/yaml.hpp"

namespace autotuned::recipes {

// Reports the names in tune.plugins that are not in `known`, with their places and the nearest known name. Without this a misspelt
// name would silently leave a plugin out. `text`: the recipe; other mistakes in it are not reported.
[[nodiscard]] std::vector<Diagnostic> unknown_plugins(std::string_view text,
                                                      const std::filesystem::path& file,
                                                      const std::vector<std::string>& known);

}  // namespace autotuned::recipes
