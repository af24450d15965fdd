// SPDX-License-Identifier: Apache-2.0
// What a recipe may say: one table that the parser, `autotuned schema` and the JSON Schema share.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned::recipes {

// The reference for people: every key with type, range, default, unit and meaning.
[[nodiscard]] std::string schema_text();
// JSON Schema (draft 2020-12) for editors.
[[nodiscard]] Json schema_json();

}  // namespace autotuned::recipes
