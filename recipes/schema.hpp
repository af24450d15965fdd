// SPDX-License-Identifier: Apache-2.0
// The schema of recipes: one table that the parser, `autotuned schema` and the JSON Schema share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace autotuned::recipes {

// The reference for people: every key with type, range, default, unit and meaning.
[[nodiscard]] std::string schema_text();
// JSON Schema (draft 2020-12) for editors.
[[nodiscard]] Json schema_json();
// Returns the paths of this key, or of this path of keys, in a recipe: "optimizer.lr" for "lr". At most four; knobs are not keys.
[[nodiscard]] std::vector<std::string> paths_of_key(std::string_view key);

}  // namespace autotuned::recipes
