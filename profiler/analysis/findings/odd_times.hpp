// SPDX-License-Identifier: Apache-2.0
// Times of a trace that cannot be right, because clocks jumped or do not agree.
#pragma once

#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Returns a sentence for each kind of error. REQUIRES: `nodes` is call_tree(trace, …).
[[nodiscard]] std::vector<std::string> odd_times(const traces::Trace& trace,
                                                 const Launches& launches,
                                                 const std::vector<CallNode>& nodes);

}  // namespace autotuned::analysis
