// SPDX-License-Identifier: Apache-2.0
// All data that the views of a profile show, without the trace itself.
#pragma once

#include <vector>

#include "profiler/analysis/bars.hpp"
#include "profiler/analysis/communication.hpp"
#include "profiler/analysis/events/input.hpp"
#include "profiler/analysis/flame.hpp"
#include "profiler/analysis/memory.hpp"
#include "profiler/analysis/modules.hpp"
#include "profiler/analysis/timelines.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The extent of a profile. Each level includes those before, and takes more time and memory.
enum class Depth {
  summary,  // overview, operators, kernels
  views,    // also modules, memory, input, timelines, communication
  plots,    // also the data for drawings
};

// The analysis of one trace for all views.
struct TraceProfile {
  TraceAnalysis summary;
  Interval recorded;  // from the first event to the end of the last one, on the trace's clock
  bool has_shapes = false;
  bool has_modules = false;
  bool has_stacks = false;  // stacks were recorded, and the trace was read with them
  // Empty at Depth::summary.
  std::vector<OperatorRow> operators_by_shape;
  std::vector<OperatorRow> operators_by_stack;
  ModuleTable modules;
  MemoryUse memory;
  InputUse input;
  TimelineTable timelines;
  Communication communication;
  // Empty except at Depth::plots.
  Flame flame;
  Flame python_flame;  // FlameOf::python_too; empty without calls of Python functions
  Bars bars;
};

// Pure. `default_rank`: the rank if the trace names none. REQUIRES: the trace has at least one event.
[[nodiscard]] TraceProfile profile_of(const traces::Trace& trace, Depth depth,
                                      int default_rank = 0);

// overall_of() for the summaries of these profiles.
[[nodiscard]] Overall overall_of(const std::vector<TraceProfile>& ranks);

}  // namespace autotuned::analysis
