// SPDX-License-Identifier: Apache-2.0
// Writes the activity of devices as events of a trace, with PyTorch's names. A part of timeline_trace.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/recorder/timeline_device.hpp"
#include "profiler/traces/writer.hpp"

namespace autotuned::profiler {

// A span in the trace.
struct SpanInTrace {
  std::int64_t number = 0;  // its "External id"
  std::string name;
  ScopeId parent = 0;  // the span around it; 0: none
};

// The "External id" of operators in the trace (by thread of the Timeline, in the order of its events; 0 for
// an event that is not in the trace), and the spans.
struct ScopeNumbers {
  std::vector<std::vector<std::int64_t>> operators;
  std::vector<SpanInTrace> spans;

  // Returns the number of the operator, or that of the span if the operator has none; 0 if neither has one.
  [[nodiscard]] std::int64_t number_of(ScopeId operation, ScopeId span) const;
};

// The value of "deviceProperties".
[[nodiscard]] std::string device_properties_json(const std::vector<RecordedDevice>& devices);

// Adds all events, names for devices and streams, arrows from calls to the work that they launched, and each
// span as a range on every stream with work launched within it, from the first of that work to the end of the
// last. `offset_ns` is added to every time.
void write_device_timeline(traces::TraceWriter& writer, const DeviceTimeline& timeline,
                           const ScopeNumbers& numbers, std::int64_t offset_ns);

}  // namespace autotuned::profiler
