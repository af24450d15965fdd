// SPDX-License-Identifier: Apache-2.0
// The names of plugins in a recipe. The caller knows which plugins there are.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/yaml.hpp"

namespace autotuned::recipes {

// The names in tune.plugins that are not `known`, with their places and the nearest known name: they would
// leave a plugin out in silence. `text` is that of the recipe; what else is wrong with it is not said.
[[nodiscard]] std::vector<Diagnostic> unknown_plugins(std::string_view text,
                                                      const std::filesystem::path& file,
                                                      const std::vector<std::string>& known);

}  // namespace autotuned::recipes
