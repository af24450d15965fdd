// SPDX-License-Identifier: Apache-2.0
#include "base/finding.hpp"

namespace autotuned {

Json FindingRecord::to_json() const {
  const auto word = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"id", id},
          {"signal", signal},
          {"value", value},
          {"threshold", threshold},
          {"fires", is_below ? "under" : "over"},
          {"evidence", evidence},
          {"plugin", word(plugin)},
          {"knob", word(knob)},
          {"advice", advice},
          {"severity", word(severity)},
          {"gain", word(gain)},
          {"code", word(code)}};
}

}  // namespace autotuned
