// SPDX-License-Identifier: Apache-2.0
// Where in the program a finding is: the module, where a trace knows the modules of its operators, and what waits.
#pragma once

#include <vector>

#include "profiler/analysis/findings.hpp"
#include "profiler/analysis/intervals.hpp"
#include "profiler/analysis/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Adds to the evidence of findings about certain operators the module that spends most of their time on
// the host within `stretches`, its backward included.
void name_modules(const traces::Trace& trace, const Stretches& stretches,
                  std::vector<Finding>& findings);

// Adds to the finding about gather the calls that synchronise, and the copies, inside of its backward: those that
// begin within `stretches`, the longest first.
void name_waits(const traces::Trace& trace, const Launches& launches, const Stretches& stretches,
                std::vector<Finding>& findings);

}  // namespace autotuned::analysis
