// SPDX-License-Identifier: Apache-2.0
// Times of a trace that cannot be right: clocks that jumped, or that do not agree.
#pragma once

#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// One sentence for each kind of error; empty if there are none. REQUIRES: `nodes` is call_tree(trace, …).
[[nodiscard]] std::vector<std::string> odd_times(const traces::Trace& trace,
                                                 const Launches& launches,
                                                 const std::vector<CallNode>& nodes);

}  // namespace autotuned::analysis
