// SPDX-License-Identifier: Apache-2.0
// What the rules of findings.hpp look at: named figures of one trace.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/analysis/events/breakdown.hpp"
#include "profiler/analysis/events/device_use.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/analysis/events/tables.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Values by name, of what lies within the recorded steps (Breakdown::stretches); memory is that of the whole
// recording. The end of a name is its unit: `_ratio` (of the time of all steps, where nothing else is said), `_ns`,
// `_bytes`, `_count`. A signal that this trace cannot tell is absent.
using Signals = std::map<std::string, double>;

// All that is known about one trace, by reference.
struct Known {
  const traces::Trace& trace;
  const Launches& launches;
  const Breakdown& breakdown;
  const std::vector<DeviceUse>& devices;
  const std::vector<OperatorRow>& operators;  // within the stretches
};

[[nodiscard]] Signals signals_of(const Known& known);

// The parts of it: from the host's events, from what is known of loading, and, where there are any, from the
// devices' events.
void add_host_signals(const Known& known, Signals& signals);
void add_loading_signals(const Known& known, Signals& signals);
void add_device_signals(const Known& known, Signals& signals);
// Of the latter: how much kernels and the use of a device change while it is recorded.
void add_steadiness_signals(const Known& known, Signals& signals);

// How long an event lasts within `stretches`, in ns.
[[nodiscard]] inline double inside_ns(const traces::Events& events, std::size_t row,
                                      const Stretches& stretches) {
  return static_cast<double>(
      stretches.length_within_ns({events.start_ns[row], events.end_ns(row)}));
}

// Moments of all steps together, in ns; at least 1.
[[nodiscard]] double steps_ns(const Breakdown& breakdown);

}  // namespace autotuned::analysis
