// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/launches.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace autotuned::analysis {

using traces::EventKind;
using traces::Events;

namespace {

// The call of each correlation; the last one if several have it. Recordings count correlations up, so a plain list suffices for millions.
// Others are hashed.
class CallIndex {
 public:
  explicit CallIndex(const Events& events) {
    std::int64_t most = 0;
    std::int64_t count = 0;
    each_call(events, [&](std::int64_t correlation, Row) {
      least_ = count == 0 ? correlation : std::min(least_, correlation);
      most = count == 0 ? correlation : std::max(most, correlation);
      ++count;
    });
    const auto span = static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least_);
    if (count > 0 && span < kMaxSparse * static_cast<std::uint64_t>(count)) {
      list_.resize(span + 1, kNoRow);
      each_call(events, [&](std::int64_t correlation, Row row) {
        list_[static_cast<std::size_t>(correlation - least_)] = row;
      });
    } else {
      each_call(events, [&](std::int64_t correlation, Row row) { map_[correlation] = row; });
    }
  }

  // Returns the row of the call; kNoRow if there is none.
  [[nodiscard]] Row find(std::int64_t correlation) const {
    if (list_.empty()) {
      const auto call = map_.find(correlation);
      return call == map_.end() ? kNoRow : call->second;
    }
    if (correlation < least_) return kNoRow;
    const auto place = static_cast<std::uint64_t>(correlation) - static_cast<std::uint64_t>(least_);
    return place < list_.size() ? list_[place] : kNoRow;
  }

 private:
  static constexpr std::uint64_t kMaxSparse = 8;

  template <class Use>
  static void each_call(const Events& events, const Use& use) {
    for (Row row = 0; row < events.size(); ++row) {
      if (events.kind[row] == EventKind::runtime_call && events.correlation[row] != traces::kNoId) {
        use(events.correlation[row], row);
      }
    }
  }

  std::int64_t least_ = 0;
  std::vector<Row> list_;  // begins with the correlation least_
  std::unordered_map<std::int64_t, Row> map_;
};

}  // namespace

Launches launches_of(const traces::Trace& trace) {
  const traces::Events& events = trace.events;
  Launches launches;
  const CallIndex call_of(events);
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::runtime_call) {
      launches.calls.push_back(row);
    } else if (is_on_device(events.kind[row])) {
      launches.device_events.push_back({.row = row});
    }
  }
  for (DeviceEvent& event : launches.device_events) {
    event.launch = call_of.find(events.correlation[event.row]);
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
