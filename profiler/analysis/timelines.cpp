// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/timelines.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::Trace;

// Annotations, steps and modules only contain the work.
bool is_work(EventKind kind) {
  return kind != EventKind::annotation && kind != EventKind::step && kind != EventKind::module &&
         kind != EventKind::overhead;
}

// Some threads have only annotations (`autotuned profile` writes the workers of a loader so). There the innermost ones are the work.
std::vector<Intervals> innermost_annotations(const Trace& trace,
                                             const std::vector<bool>& has_work) {
  const Events& events = trace.events;
  std::vector<Intervals> annotations(has_work.size());
  for (std::size_t row = 0; row < events.size(); ++row) {
    const std::uint32_t thread = events.thread[row];
    if (events.kind[row] != EventKind::annotation || has_work[thread]) continue;
    annotations[thread].push_back({events.start_ns[row], events.end_ns(row)});
  }
  for (Intervals& all : annotations) {
    std::ranges::sort(all, [](const Interval& a, const Interval& b) {
      return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
    });
    Intervals innermost;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool holds_next = i + 1 < all.size() && all[i + 1].end_ns <= all[i].end_ns;
      if (!holds_next) innermost.push_back(all[i]);
    }
    all = std::move(innermost);
  }
  return annotations;
}

// The outermost event says most: an annotation more than the operators inside. Steps say nothing.
void explain(std::vector<GapRow>& gaps, const Trace& trace) {
  const Events& events = trace.events;
  for (GapRow& gap : gaps) {
    std::int64_t longest_ns = 0;
    for (std::size_t row = 0; row < events.size(); ++row) {
      const EventKind kind = events.kind[row];
      if (kind == EventKind::step || is_on_device(kind)) continue;
      const std::int64_t ns = overlap_ns(gap.time, {events.start_ns[row], events.end_ns(row)});
      if (ns <= longest_ns) continue;
      longest_ns = ns;
      gap.meanwhile = trace.name_of(row);
    }
    if (longest_ns == 0) gap.meanwhile = "nothing that was recorded";
    gap.meanwhile_ratio = static_cast<double>(longest_ns) /
                          static_cast<double>(std::max<std::int64_t>(gap.time.length_ns(), 1));
  }
}

constexpr int kNoDevice = -1;

std::vector<int> device_of_threads(const Trace& trace) {
  std::vector<int> devices(trace.threads.size(), kNoDevice);
  const Events& events = trace.events;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (!is_on_device(events.kind[row])) continue;
    devices[events.thread[row]] = std::max(trace.details[events.detail[row]].device, 0);
  }
  return devices;
}

// A device is idle if all of its streams are. The gap is shown with the busiest of them.
std::vector<GapRow> gaps_of(const std::vector<TimelineRow>& rows, const std::vector<int>& devices,
                            const std::vector<Intervals>& busy, const std::vector<bool>& has_work,
                            const Intervals& stretches) {
  std::map<int, Intervals> busy_of_device;
  std::map<int, std::uint32_t> busiest;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const int device = devices[rows[i].thread];
    if (rows[i].busy_ns == 0 || !has_work[rows[i].thread]) continue;
    // Only the busiest thread of the host counts.
    const bool is_first = busiest.try_emplace(device, i).second;
    if (device == kNoDevice && !is_first) continue;
    Intervals& all = busy_of_device[device];
    all.insert(all.end(), busy[rows[i].thread].begin(), busy[rows[i].thread].end());
  }
  if (busiest.size() > 1) busiest.erase(kNoDevice);
  std::vector<GapRow> gaps;
  for (const auto& [device, timeline] : busiest) {
    for (const Interval& gap : difference(stretches, merged(std::move(busy_of_device[device]))))
      gaps.push_back({.timeline = timeline, .time = gap, .meanwhile = {}});
  }
  return gaps;
}

}  // namespace

std::vector<std::string> timeline_names(const Trace& trace) {
  std::vector<std::string> names;
  for (const traces::Thread& thread : trace.threads) {
    names.push_back(thread.name.empty() ? "thread " + thread.thread + " of " + thread.process
                                        : thread.name);
  }
  const Events& events = trace.events;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (!is_on_device(events.kind[row])) continue;
    const traces::DeviceDetail& detail = trace.details[events.detail[row]];
    std::string& name = names[events.thread[row]];
    if (name.starts_with("GPU ")) continue;
    name = "GPU " + std::to_string(detail.device) + ", stream " + std::to_string(detail.stream);
  }
  return names;
}

TimelineTable timeline_table(const Trace& trace, const Stretches& stretches,
                             std::size_t most_gaps) {
  const Events& events = trace.events;
  std::vector<TimelineRow> rows(trace.threads.size());
  std::vector<Intervals> busy(trace.threads.size());
  std::vector<bool> has_work(trace.threads.size());
  const std::vector<std::string> names = timeline_names(trace);
  for (std::size_t row = 0; row < events.size(); ++row) {
    const std::uint32_t thread = events.thread[row];
    ++rows[thread].events;
    rows[thread].is_device |= is_on_device(events.kind[row]);
    if (is_work(events.kind[row])) {
      has_work[thread] = true;
      busy[thread].push_back({events.start_ns[row], events.end_ns(row)});
    }
  }
  std::vector<Intervals> annotated = innermost_annotations(trace, has_work);
  for (std::size_t thread = 0; thread < busy.size(); ++thread) {
    if (!has_work[thread]) busy[thread] = std::move(annotated[thread]);
  }
  const double all_ns = static_cast<double>(std::max<std::int64_t>(stretches.length_ns(), 1));
  for (std::uint32_t thread = 0; thread < rows.size(); ++thread) {
    TimelineRow& row = rows[thread];
    busy[thread] = intersection(merged(std::move(busy[thread])), stretches.intervals());
    row.name = names[thread];
    row.thread = thread;
    row.busy_ns = length_ns(busy[thread]);
    row.busy_ratio = static_cast<double>(row.busy_ns) / all_ns;
    if (row.busy_ns == 0) continue;
    for (const Interval& gap : difference(stretches.intervals(), busy[thread])) {
      if (gap.length_ns() > row.longest_gap.length_ns()) row.longest_gap = gap;
    }
  }

  TimelineTable table;
  std::ranges::stable_sort(rows, [](const TimelineRow& a, const TimelineRow& b) {
    return a.is_device != b.is_device ? b.is_device : a.busy_ns > b.busy_ns;
  });
  std::erase_if(rows, [](const TimelineRow& row) { return row.events == 0; });
  table.rows = std::move(rows);
  table.gaps = gaps_of(table.rows, device_of_threads(trace), busy, has_work, stretches.intervals());
  const auto length = [](const GapRow& gap) { return gap.time.length_ns(); };
  const std::size_t kept = std::min(most_gaps, table.gaps.size());
  std::ranges::partial_sort(table.gaps, table.gaps.begin() + static_cast<std::ptrdiff_t>(kept),
                            std::greater{}, length);
  table.gaps.resize(kept);
  explain(table.gaps, trace);
  return table;
}

}  // namespace autotuned::analysis
