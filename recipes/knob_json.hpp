// SPDX-License-Identifier: Apache-2.0
// Reads the knobs that trainer extensions declare.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::recipes {

// Reads {"name", "type": boolean | integer | choice, "risk", "summary"}, for an integer with "minimum", "maximum" and "default", for
// a choice with "choices" (the first is the default, or "default" names it), and optionally "switch" (live), "unit" and
// "warmup_steps" (1). ErrorKind::invalid names the knob and the field. Unknown fields are errors.
[[nodiscard]] Result<Knob> knob_from_json(const Json& value);

}  // namespace autotuned::recipes
