// SPDX-License-Identifier: Apache-2.0
// What devices did, in PyTorch's words, as events of a trace. Part of timeline_trace.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/recorder/timeline_device.hpp"
#include "profiler/traces/writer.hpp"

namespace autotuned::profiler {

// A span as it is in the trace.
struct SpanInTrace {
  std::int64_t number = 0;  // its "External id"
  std::string name;
  ScopeId parent = 0;  // the span around it; 0: none
};

// The "External id" that operators have in the trace: of each thread of the Timeline, in the order
// of its events, 0 for one that is not there; and the spans.
struct ScopeNumbers {
  std::vector<std::vector<std::int64_t>> operators;
  std::vector<SpanInTrace> spans;

  // Of the operator, where there is none of the span; 0: of neither.
  [[nodiscard]] std::int64_t number_of(ScopeId operation, ScopeId span) const;
};

// The value of "deviceProperties".
[[nodiscard]] std::string device_properties_json(const std::vector<RecordedDevice>& devices);

// Adds all events, named processes and threads for their devices and streams, arrows from calls to
// what they launched, and each span as a range of every stream that did work launched within it,
// from the first of that to the end of the last. `offset_ns` is added to every time.
void write_device_timeline(traces::TraceWriter& writer, const DeviceTimeline& timeline,
                           const ScopeNumbers& numbers, std::int64_t offset_ns);

}  // namespace autotuned::profiler
