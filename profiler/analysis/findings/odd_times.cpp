// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/odd_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "profiler/analysis/findings/findings.hpp"

namespace autotuned::analysis {
namespace {

using traces::Events;

// The precision with which the clock of a device is converted to that of the host.
constexpr std::int64_t kClockErrorNs = 20'000;

struct Odd {
  std::int64_t count = 0;
  std::int64_t most_ns = 0;

  void add(std::int64_t ns) {
    ++count;
    most_ns = std::max(most_ns, ns);
  }
};

// Counts events of one thread that overlap without one containing the other.
Odd overlaps(const Events& events, const std::vector<CallNode>& nodes) {
  Odd odd;
  std::vector<Row> open;
  for (const CallNode& node : nodes) {
    const std::int64_t start_ns = events.start_ns[node.row];
    const std::int64_t end_ns = events.end_ns(node.row);
    while (!open.empty() && (events.thread[open.back()] != events.thread[node.row] ||
                             events.end_ns(open.back()) <= start_ns)) {
      open.pop_back();
    }
    std::int64_t most_ns = 0;
    for (; !open.empty() && events.end_ns(open.back()) < end_ns; open.pop_back()) {
      const std::int64_t open_end_ns = events.end_ns(open.back());
      if (end_ns - open_end_ns > kRoundingNs) most_ns = std::max(most_ns, open_end_ns - start_ns);
    }
    if (most_ns > kRoundingNs) odd.add(most_ns);
    open.push_back(node.row);
  }
  return odd;
}

// Counts work that begins before the call that launched it.
Odd before_launch(const Events& events, const Launches& launches) {
  Odd odd;
  for (const DeviceEvent& event : launches.device_events) {
    if (event.launch == kNoRow) continue;
    const std::int64_t early_ns = events.start_ns[event.launch] - events.start_ns[event.row];
    if (early_ns > kClockErrorNs) odd.add(early_ns);
  }
  return odd;
}

}  // namespace

std::vector<std::string> odd_times(const traces::Trace& trace, const Launches& launches,
                                   const std::vector<CallNode>& nodes) {
  std::vector<std::string> sentences;
  const auto add = [&](const Odd& odd, const char* one, const char* many, const char* what) {
    if (odd.count == 0) return;
    sentences.push_back(fmt::format("{} {}, by up to {}: {}", format_count(odd.count),
                                    odd.count == 1 ? one : many,
                                    signal_text("odd_ns", static_cast<double>(odd.most_ns)), what));
  };
  add(overlaps(trace.events, nodes),
      "event overlaps another event of its thread without lying inside it",
      "events overlap other events of their threads without lying inside them",
      "a clock jumped, or two threads have one number; the events are taken as one after the "
      "other");
  add(before_launch(trace.events, launches), "operation of a device begins before its launch",
      "operations of devices begin before their launches",
      "the clocks of host and device differ, so do not trust gaps");
  return sentences;
}

}  // namespace autotuned::analysis
