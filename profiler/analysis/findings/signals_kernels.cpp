// SPDX-License-Identifier: Apache-2.0
// Signals of how steadily a device works.
#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/analysis/findings/signals.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;

// The number of chunks into which Nsight Systems cuts a recording.
constexpr std::int64_t kChunks = 30;
constexpr double kLowUse = 0.5;
constexpr std::size_t kFewestCalls = 20;
constexpr double kMinShare = 0.01;  // kernels below this share of the kernel time do not count

// Returns the share of equal chunks in which a device is mostly idle although it is busy on the whole.
void add_chunks(const AnalysisInput& input, Signals& signals) {
  const Intervals& kernels = input.breakdown.all[static_cast<std::size_t>(Part::kernel)];
  double low = 0;
  double used_ns = 0;
  double count = 0;
  for (const Interval& stretch : input.breakdown.stretches.intervals()) {
    for (std::int64_t i = 0; i < kChunks; ++i) {
      const Interval chunk{stretch.start_ns + stretch.length_ns() / kChunks * i,
                           stretch.start_ns + stretch.length_ns() / kChunks * (i + 1)};
      const auto busy_ns = static_cast<double>(length_within_ns(kernels, chunk));
      used_ns += busy_ns;
      ++count;
      if (busy_ns < kLowUse * static_cast<double>(chunk.length_ns())) ++low;
    }
  }
  const auto all_ns = static_cast<double>(input.breakdown.stretches.length_ns());
  // A device that is idle most of the time is another finding.
  if (count > 0 && used_ns >= kLowUse * all_ns) {
    signals["device.idle_chunks_share_ratio"] = low / count;
  }
}

// Returns how much longer the calls of a kernel take in their second half than in their first: the largest value of any kernel.
void add_drift(const AnalysisInput& input, Signals& signals) {
  const Events& events = input.trace.events;
  std::unordered_map<NameId, std::vector<Row>> calls;
  double all_ns = 0;
  for (const DeviceEvent& event : input.launches.device_events) {
    if (events.kind[event.row] != EventKind::kernel ||
        !input.breakdown.stretches.hold(events.start_ns[event.row])) {
      continue;
    }
    calls[events.name[event.row]].push_back(event.row);  // by start
    all_ns += static_cast<double>(events.length_ns[event.row]);
  }
  double most = 0;
  bool is_known = false;
  for (const auto& [name, rows] : calls) {
    if (rows.size() < kFewestCalls) continue;
    const std::size_t half = rows.size() / 2;
    double first_ns = 0;
    double second_ns = 0;
    for (std::size_t i = 0; i < half; ++i) {
      first_ns += static_cast<double>(events.length_ns[rows[i]]);
      second_ns += static_cast<double>(events.length_ns[rows[rows.size() - 1 - i]]);
    }
    if (first_ns <= 0 || first_ns + second_ns < kMinShare * all_ns) continue;
    is_known = true;
    most = std::max(most, second_ns / first_ns - 1);
  }
  if (is_known) signals["kernels.drift_ratio"] = most;
}

}  // namespace

void add_steadiness_signals(const AnalysisInput& input, Signals& signals) {
  add_chunks(input, signals);
  add_drift(input, signals);
}

}  // namespace autotuned::analysis
