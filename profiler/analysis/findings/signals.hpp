// SPDX-License-Identifier: Apache-2.0
// Signals: named figures of one trace, which the rules of findings.hpp test.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analysis/events/breakdown.hpp"
#include "profiler/analysis/events/device_use.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/analysis/events/tables.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Values by name. They cover the recorded steps (Breakdown::stretches), or the whole recording if they are about memory. The end of a
// name is the unit: `_ratio` (of the time of all steps, unless the name says otherwise), `_ns`,
// `_bytes`, `_count`. A signal that the trace cannot give is absent.
using Signals = std::map<std::string, double>;

// A trace and the results of the analysis of its events, by reference.
struct AnalysisInput {
  const traces::Trace& trace;
  const Launches& launches;
  const Breakdown& breakdown;
  const std::vector<DeviceUse>& devices;
  const std::vector<OperatorRow>& operators;  // within the stretches
};

[[nodiscard]] Signals signals_of(const AnalysisInput& input);

// The parts of signals_of(): signals of the host's events, of loading, and of the devices' events, if there are any.
void add_host_signals(const AnalysisInput& input, Signals& signals);
void add_loading_signals(const AnalysisInput& input, Signals& signals);
void add_device_signals(const AnalysisInput& input, Signals& signals);
// Signals of changes during the recording: in the time of kernels, and in the use of a device.
void add_steadiness_signals(const AnalysisInput& input, Signals& signals);

// Whether `part` is in `text`.
[[nodiscard]] inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the time of an event within `stretches`, in ns.
[[nodiscard]] inline double inside_ns(const traces::Events& events, std::size_t row,
                                      const Stretches& stretches) {
  return static_cast<double>(
      stretches.length_within_ns({events.start_ns[row], events.end_ns(row)}));
}

// Returns the time of all steps together, in ns; at least 1.
[[nodiscard]] double steps_ns(const Breakdown& breakdown);

}  // namespace autotuned::analysis
