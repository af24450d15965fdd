// SPDX-License-Identifier: Apache-2.0
// A knob as somebody else declares it: a trainer extension.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::recipes {

// {"name", "type": boolean | integer | choice, "risk", "summary"}, with minimum, maximum and default of an
// integer, choices of a choice (the first is the default, or `default` says which), and optionally switch
// (live), unit and warmup_steps (1). ErrorKind::invalid names the knob and the field; unknown fields are
// errors, too.
[[nodiscard]] Result<Knob> knob_from_json(const Json& value);

}  // namespace autotuned::recipes
