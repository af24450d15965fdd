// SPDX-License-Identifier: Apache-2.0
// Everything that the views of a profile show, kept when the trace itself is gone.
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

// How much of a profile is wanted: each takes the time and the memory of those before, and more.
enum class Depth {
  summary,  // overview, operators, kernels
  views,    // also modules, memory, input, timelines, communication
  plots,    // also what is drawn
};

struct Profile {
  TraceAnalysis summary;
  Interval recorded;  // from the first event to the end of the last one, on the trace's clock
  bool has_shapes = false;
  bool has_modules = false;
  bool has_stacks = false;  // and the trace was read with them
  // Empty at Depth::summary.
  std::vector<OperatorRow> operators_by_shape;
  std::vector<OperatorRow> operators_by_stack;
  ModuleTable modules;
  MemoryUse memory;
  InputUse input;
  TimelineTable timelines;
  Communication communication;
  // Empty but for Depth::plots.
  Flame flame;
  Flame python_flame;  // FlameOf::python_too; empty without calls of Python functions
  Bars bars;
};

// A pure function. REQUIRES: the trace has at least one event. Where the trace names no rank, its rank is
// `default_rank`.
[[nodiscard]] Profile profile_of(const traces::Trace& trace, Depth depth, int default_rank = 0);

// overall_of() their summaries.
[[nodiscard]] Overall overall_of(const std::vector<Profile>& ranks);

}  // namespace autotuned::analysis
