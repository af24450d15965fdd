// SPDX-License-Identifier: Apache-2.0
// The calls of the runtime that launched the work of devices.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

using Row = std::uint32_t;  // a row of traces::Events
inline constexpr Row kNoRow = traces::kNoDetail;

// Work of a device: its row, and that of the call that launched it.
struct DeviceEvent {
  Row row = kNoRow;
  Row launch = kNoRow;  // the call with the same correlation id; kNoRow: not in the trace
};

struct Launches {
  std::vector<DeviceEvent> device_events;  // by start
  std::vector<Row> calls;                  // calls of the runtime, by start
};

// Finds the launches. Needs all events, because in a trace a launch may come after the work that it launched.
[[nodiscard]] Launches launches_of(const traces::Trace& trace);

// Whether the devices are from AMD: work was launched through HIP.
[[nodiscard]] bool is_rocm(const traces::Trace& trace);

}  // namespace autotuned::analysis
