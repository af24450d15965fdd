// SPDX-License-Identifier: Apache-2.0
// The place of a finding in the program: the module, if the trace has the modules of operators, and the operations that wait.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/analysis/findings/findings.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The module that spends most of the host time of certain operators, backward included.
struct SlowestModule {
  std::string module;  // its path in the model
  double share = 0;    // share of these operators' time, 0 to 1
};

// The place for each signal of a rule about certain operators, whether or not the rule fires. Operators without a known module are left
// out.
using SlowestModules = std::map<std::string, SlowestModule>;

[[nodiscard]] SlowestModules places_of(const traces::Trace& trace, const Stretches& stretches);

// Adds the place of its signal to the evidence of each finding.
void name_modules(const SlowestModules& places, std::vector<Finding>& findings);

// Adds to the finding about gather: the synchronising calls and the copies inside of its backward that begin
// within `stretches`, the longest first.
void name_waits(const traces::Trace& trace, const Launches& launches, const Stretches& stretches,
                std::vector<Finding>& findings);

}  // namespace autotuned::analysis
