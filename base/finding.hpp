// SPDX-License-Identifier: Apache-2.0
// What a rule of the profiler found in a trace, as plain values that outlive the rule and the trace.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned {

struct FindingRecord {
  std::string id;      // of the rule; its meaning never changes
  std::string signal;  // its name (docs/metrics.md); the end of the name is the unit
  double value = 0.0;  // of the signal
  double threshold = 0.0;
  bool is_below = false;  // the rule fires below the threshold; else above it
  std::string evidence;   // one sentence with the figures; may hold names of the user's program
  std::string plugin;     // the plugin that acts on it; "" for none
  std::string knob;       // the knob that the plugin turns; "" for none
  std::string advice;
  // "" in a history of an older version, here and below.
  std::string severity;  // "high", "medium", "low" or "note"
  std::string gain;      // what acting on it can save at most and why, in words; may be ""
  std::string code;      // for PyTorch, to paste; "" if there is none

  // An element of `findings` in `run --json` and `explain --json`. Empty texts become null.
  [[nodiscard]] Json to_json() const;
};

}  // namespace autotuned
