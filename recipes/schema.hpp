// SPDX-License-Identifier: Apache-2.0
// What a recipe may say: one table that the parser, `autotuned schema` and the JSON Schema share.
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
// Where a recipe has this key, or exactly this path of keys: "lr" is "optimizer.lr". At most four; knobs are none.
[[nodiscard]] std::vector<std::string> paths_of_key(std::string_view key);

}  // namespace autotuned::recipes
