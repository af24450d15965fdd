// SPDX-License-Identifier: Apache-2.0
// Finds the place of a key in the text of a recipe, for mistakes that are found later.
#pragma once

#include <string>
#include <string_view>

#include "recipes/yaml.hpp"

namespace autotuned::recipes {

// Returns `message` with the place of `key`, a path such as "train.batch_size", "input[1].resize" or "start.loader.workers". If the
// recipe has only the beginning of the path, the place is that of its last part there, or else the whole file.
[[nodiscard]] Diagnostic diagnostic_at(std::string_view text, const std::string& file,
                                       std::string_view key, std::string message);

}  // namespace autotuned::recipes
