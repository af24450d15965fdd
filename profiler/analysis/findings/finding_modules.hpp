// SPDX-License-Identifier: Apache-2.0
// Where in the program a finding is: the module, where a trace knows the modules of its operators, and what waits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/analysis/findings/findings.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The module that spends most of the time of certain operators on the host, its backward included.
struct Place {
  std::string module;  // its path in the model
  double share = 0;    // of these operators' time
};

// By the signal of the rule that is about these operators, whether or not it fires. Without those of which the trace
// knows no module.
using Places = std::map<std::string, Place>;

[[nodiscard]] Places places_of(const traces::Trace& trace, const Stretches& stretches);

// Adds to the evidence of findings the place of their signal.
void name_modules(const Places& places, std::vector<Finding>& findings);

// Adds to the finding about gather the calls that synchronise, and the copies, inside of its backward: those that
// begin within `stretches`, the longest first.
void name_waits(const traces::Trace& trace, const Launches& launches, const Stretches& stretches,
                std::vector<Finding>& findings);

}  // namespace autotuned::analysis
