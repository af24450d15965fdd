// SPDX-License-Identifier: Apache-2.0
// Which module of the model a finding is about, where a trace knows the modules of its operators.
#pragma once

#include <vector>

#include "profiler/analysis/findings.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Adds to the evidence of findings about certain operators the module that spends most of their time on
// the host, its backward included.
void name_modules(const traces::Trace& trace, std::vector<Finding>& findings);

}  // namespace autotuned::analysis
