// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/launches.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace autotuned::analysis {

using traces::EventKind;

Launches launches_of(const traces::Trace& trace) {
  const traces::Events& events = trace.events;
  Launches launches;
  std::unordered_map<std::int64_t, Row> call_of;
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::runtime_call) {
      launches.calls.push_back(row);
      if (events.correlation[row] != traces::kNoId) call_of[events.correlation[row]] = row;
    } else if (is_on_device(events.kind[row])) {
      launches.device_events.push_back({.row = row});
    }
  }
  for (DeviceEvent& event : launches.device_events) {
    const auto call = call_of.find(events.correlation[event.row]);
    if (call != call_of.end()) event.launch = call->second;
  }
  const auto by_start = [&](Row row) { return events.start_ns[row]; };
  std::ranges::stable_sort(launches.calls, {}, by_start);
  std::ranges::stable_sort(launches.device_events, {},
                           [&](const DeviceEvent& event) { return events.start_ns[event.row]; });
  return launches;
}

bool is_rocm(const traces::Trace& trace) {
  for (traces::NameId id = 0; id < trace.names.size(); ++id) {
    const std::string& name = trace.names.text(id);
    // hipLaunchKernel, hipExtLaunchKernel, hipModuleLaunchKernel, …
    if (name.starts_with("hip") && name.find("Launch") != std::string::npos) return true;
  }
  return false;
}

}  // namespace autotuned::analysis
