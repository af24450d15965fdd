// SPDX-License-Identifier: Apache-2.0
// A finding of the profiler in a trace, as plain values that outlive the rule and the trace.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned {

struct FindingRecord {
  std::string id;      // identifies the rule; its meaning never changes
  std::string signal;  // name of the signal (docs/metrics.md); it ends in the unit
  double value = 0.0;  // value of the signal
  double threshold = 0.0;
  bool is_below = false;  // whether the rule fires below the threshold; else it fires above
  std::string evidence;   // one sentence with the figures; may hold names of the user's program
  std::string plugin;     // the plugin that acts on it; "" for none
  std::string knob;       // the knob that the plugin turns; "" for none
  std::string advice;
  // This field and those below are "" in rows that an older version stored.
  std::string severity;  // "high", "medium", "low" or "note"
  std::string gain;      // in words, the most that acting on it can save, and why; may be ""
  std::string code;      // PyTorch code to paste; "" if there is none

  // An element of `findings` in `run --json` and `explain --json`. Empty texts become null.
  [[nodiscard]] Json to_json() const;
};

}  // namespace autotuned
