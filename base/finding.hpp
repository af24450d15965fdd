// SPDX-License-Identifier: Apache-2.0
// What a rule of the profiler found in a trace, as plain values that outlive rule and trace.
#pragma once

#include <string>

#include "base/json.hpp"

namespace autotuned {

struct FindingRecord {
  std::string id;      // of the rule; never changes its meaning
  std::string signal;  // docs/metrics.md; its unit is the end of its name
  double value = 0.0;  // of the signal
  double threshold = 0.0;
  bool is_below = false;  // fires under the threshold, else over it
  std::string evidence;   // one sentence with the figures; may hold names of the user's program
  std::string plugin;     // that acts on it; "" for none
  std::string knob;       // that the plugin turns; "" for none
  std::string advice;
  std::string severity;  // "high", "medium", "low" or "note"; "" in a history of an older version

  // An element of `findings` in `run --json` and `explain --json`; what is "" is null.
  [[nodiscard]] Json to_json() const;
};

}  // namespace autotuned
