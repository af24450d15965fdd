// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/profile.hpp"

#include <algorithm>
#include <limits>

namespace autotuned::analysis {
namespace {

constexpr std::size_t kGaps = 20;
constexpr std::size_t kFrames = 4'000;
constexpr std::size_t kBars = 30'000;
constexpr std::size_t kTracks = 48;

Interval recorded_time(const traces::Trace& trace) {
  Interval time{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (std::size_t row = 0; row < trace.events.size(); ++row) {
    time.start_ns = std::min(time.start_ns, trace.events.start_ns[row]);
    time.end_ns = std::max(time.end_ns, trace.events.end_ns(row));
  }
  return time;
}

}  // namespace

TraceProfile profile_of(const traces::Trace& trace, Depth depth, int default_rank) {
  TraceProfile profile;
  profile.summary = analyze(trace, default_rank);
  profile.recorded = recorded_time(trace);
  profile.has_shapes = std::ranges::any_of(
      trace.events.shapes, [](std::uint32_t shapes) { return shapes != traces::kNoDetail; });
  profile.has_modules = trace.has_modules;
  if (depth == Depth::summary) return profile;

  const Launches launches = launches_of(trace);
  const std::vector<CallNode> nodes = call_tree(trace, launches, CallTreeOf::everything);
  const Stretches& stretches = profile.summary.breakdown.stretches;
  if (profile.has_shapes) {
    profile.operators_by_shape = operator_table(trace, launches, OperatorsBy::shapes);
  }
  if (const Stacks stacks = stacks_of(trace); stacks.has_any) {
    profile.has_stacks = true;
    profile.operators_by_stack = operator_table(trace, launches, OperatorsBy::stacks, stacks);
  }
  profile.modules = module_table(trace, nodes);
  profile.memory = memory_use(trace, nodes);
  profile.input = input_use(trace, nodes, profile.summary.breakdown);
  profile.timelines = timeline_table(trace, stretches, kGaps);
  profile.communication = communication_of(trace, stretches);
  if (depth == Depth::views) return profile;

  profile.flame = flame_of(trace, nodes, kFrames);
  if (!trace.python_calls.empty()) {
    profile.python_flame = flame_of(trace, nodes, kFrames, FlameOf::python_too);
  }
  profile.bars = bars_of(trace, launches, profile.recorded, kBars, kTracks);
  return profile;
}

Overall overall_of(const std::vector<TraceProfile>& ranks) {
  std::vector<TraceAnalysis> summaries;
  summaries.reserve(ranks.size());
  for (const TraceProfile& rank : ranks)
    summaries.push_back(rank.summary);
  return overall_of(summaries);
}

}  // namespace autotuned::analysis
