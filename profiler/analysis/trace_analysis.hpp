// SPDX-License-Identifier: Apache-2.0
// All results that `autotuned analyze` prints about a trace, and about the traces of several ranks together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/events/breakdown.hpp"
#include "profiler/analysis/events/device_use.hpp"
#include "profiler/analysis/events/tables.hpp"
#include "profiler/analysis/findings/finding_modules.hpp"
#include "profiler/analysis/findings/findings.hpp"
#include "profiler/analysis/findings/signals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The analysis of the trace of one rank.
struct TraceAnalysis {
  std::string file;
  int rank = 0;
  std::int64_t events = 0;
  std::vector<traces::DeviceProperties> properties;
  Breakdown breakdown;
  std::vector<DeviceUse> devices;
  std::vector<OperatorRow> operators;
  std::vector<KernelRow> kernels;
  Signals signals;
  SlowestModules places;
  std::vector<Finding> findings;
  bool is_complete = true;  // Trace::is_complete
  std::vector<std::string> damage;
  std::vector<std::string> notes;
};

// Pure. `default_rank`: the rank if the trace names none. If the trace has no device, signals in `measured` replace those of the trace,
// because they were measured over more steps. REQUIRES: the trace has at least one event.
[[nodiscard]] TraceAnalysis analyze(const traces::Trace& trace, int default_rank = 0,
                                    const Signals& measured = {});

// Several ranks together: means over the ranks for times and use, sums for the tables, and findings from the means, from differences
// between ranks, and of single ranks that the means hide. For a single rank all values are its own.
struct Overall {
  double step_ns = 0;
  std::array<double, kParts> part_ns{};
  std::array<double, kCpuPhases> cpu_phase_ns{};  // Part::cpu by phase
  bool has_cpu_phases = false;                    // whether any rank has them
  std::optional<DeviceUse> device;                // mean over all devices; nothing without one
  std::vector<OperatorRow> operators;
  std::vector<KernelRow> kernels;
  Signals signals;
  std::vector<Finding> findings;
};
// REQUIRES: not empty.
[[nodiscard]] Overall overall_of(const std::vector<TraceAnalysis>& ranks);

}  // namespace autotuned::analysis
