// SPDX-License-Identifier: Apache-2.0
// Whether a trace is one that viewers can draw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace autotuned {

// "a and b" for complete events of one thread that overlap without one holding the other.
inline std::vector<std::string> crossing_events(const Json& trace) {
  struct Event {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::string name;
  };
  std::map<std::string, std::vector<Event>> threads;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("ph", "") != "X") continue;
    const std::int64_t start_ns = std::llround(event.at("ts").get<double>() * 1e3);
    const std::int64_t length_ns = std::llround(event.at("dur").get<double>() * 1e3);
    threads[event.at("pid").dump() + " " + event.at("tid").dump()].push_back(
        {start_ns, start_ns + length_ns, event.at("name")});
  }
  std::vector<std::string> crossing;
  for (auto& [thread, events] : threads) {
    std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
      return std::pair(a.start_ns, -a.end_ns) < std::pair(b.start_ns, -b.end_ns);
    });
    std::vector<const Event*> open;
    for (const Event& event : events) {
      while (!open.empty() && open.back()->end_ns <= event.start_ns)
        open.pop_back();
      if (!open.empty() && open.back()->end_ns < event.end_ns) {
        crossing.push_back(open.back()->name + " and " + event.name);
      }
      open.push_back(&event);
    }
  }
  return crossing;
}

}  // namespace autotuned
