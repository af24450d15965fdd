// SPDX-License-Identifier: Apache-2.0
// Which call of the runtime started which work on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

using Row = std::uint32_t;  // of traces::Events
inline constexpr Row kNoRow = traces::kNoDetail;

// For each device event (index into Trace::details order of rows): its row and its launch.
struct DeviceEvent {
  Row row = kNoRow;
  Row launch = kNoRow;  // the call with the same correlation id; kNoRow: not in the trace
};

struct Launches {
  std::vector<DeviceEvent> device_events;  // by start
  std::vector<Row> calls;                  // of the runtime, by start
};

// Needs all events: in a trace, a launch may come after the work that it launched.
[[nodiscard]] Launches launches_of(const traces::Trace& trace);

// Whether the devices are from AMD: work was launched through HIP.
[[nodiscard]] bool is_rocm(const traces::Trace& trace);

}  // namespace autotuned::analysis
