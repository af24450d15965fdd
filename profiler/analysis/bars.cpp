// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/bars.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "profiler/analysis/events/forward_threads.hpp"
#include "profiler/analysis/timelines.hpp"
#include "profiler/analysis/used_names.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::Trace;

// Deeper events are drawn in the row at this depth.
constexpr std::uint32_t kDeepestBar = 100;
constexpr std::uint32_t kNoTrack = traces::kNoDetail;

// Returns the threads with the most events within the window, those of devices last. Fills `rows` with these events.
std::vector<std::uint32_t> drawn_threads(const Trace& trace, Interval window, std::size_t most,
                                         std::vector<Row>& rows) {
  const Events& events = trace.events;
  std::vector<std::size_t> counts(trace.threads.size());
  std::vector<bool> is_device(trace.threads.size());
  for (Row row = 0; row < events.size(); ++row) {
    if (overlap_ns({events.start_ns[row], events.end_ns(row)}, window) <= 0) continue;
    rows.push_back(row);
    ++counts[events.thread[row]];
    if (is_on_device(events.kind[row])) is_device[events.thread[row]] = true;
  }
  std::vector<std::uint32_t> threads;
  for (std::uint32_t thread = 0; thread < counts.size(); ++thread) {
    if (counts[thread] > 0) threads.push_back(thread);
  }
  std::ranges::stable_sort(threads, std::greater{}, [&](std::uint32_t i) { return counts[i]; });
  if (threads.size() > most) threads.resize(most);
  std::ranges::stable_sort(threads, {}, [&](std::uint32_t i) { return bool{is_device[i]}; });
  return threads;
}

// `bar_of`: the bar of each row, or kNoBar.
void find_causes(std::vector<Bar>& bars, const Events& events, const Launches& launches,
                 const std::vector<std::uint32_t>& bar_of) {
  for (const DeviceEvent& event : launches.device_events) {
    if (event.launch == kNoRow || bar_of[event.row] == kNoBar) continue;
    bars[bar_of[event.row]].cause = bar_of[event.launch];
  }
  // If several operators have a number, the last one created the node of the backward pass.
  std::unordered_map<CountedOperator, Row, CountedOperatorHash> forward_of;
  for (Row row = 0; row < events.size(); ++row) {
    if (events.sequence[row] == traces::kNoId || events.is_backward[row]) continue;
    const CountedOperator counted{events.thread[row], events.sequence[row]};
    const auto [found, is_new] = forward_of.try_emplace(counted, row);
    if (!is_new && events.start_ns[found->second] <= events.start_ns[row]) found->second = row;
  }
  if (forward_of.empty()) return;
  const auto threads = forward_threads(events);
  for (Row row = 0; row < events.size(); ++row) {
    if (events.sequence[row] == traces::kNoId || !events.is_backward[row]) continue;
    const auto thread = threads.find(events.forward_thread[row]);
    if (thread == threads.end()) continue;
    const auto forward = forward_of.find({thread->second, events.sequence[row]});
    if (forward == forward_of.end() || bar_of[row] == kNoBar) continue;
    if (events.start_ns[forward->second] > events.start_ns[row]) continue;
    bars[bar_of[row]].cause = bar_of[forward->second];
  }
}

}  // namespace

Bars bars_of(const Trace& trace, const Launches& launches, Interval window, std::size_t most,
             std::size_t most_tracks) {
  const Events& events = trace.events;
  Bars bars;
  std::vector<Row> rows;
  std::vector<std::uint32_t> track_of(trace.threads.size(), kNoTrack);
  const std::vector<std::string> names = timeline_names(trace);
  for (const std::uint32_t thread : drawn_threads(trace, window, most_tracks, rows)) {
    track_of[thread] = static_cast<std::uint32_t>(bars.tracks.size());
    bars.tracks.push_back(names[thread]);
  }

  // The depth follows from the open events, before any are left out.
  std::ranges::stable_sort(rows, [&](Row a, Row b) {
    const std::uint32_t track_a = track_of[events.thread[a]];
    const std::uint32_t track_b = track_of[events.thread[b]];
    if (track_a != track_b) return track_a < track_b;
    if (events.start_ns[a] != events.start_ns[b]) return events.start_ns[a] < events.start_ns[b];
    return events.length_ns[a] > events.length_ns[b];
  });
  std::vector<std::uint32_t> open;
  std::vector<std::uint32_t> bar_of(events.size(), kNoBar);
  std::vector<Bar> all;
  for (const Row row : rows) {
    const std::uint32_t track = track_of[events.thread[row]];
    if (track == kNoTrack) continue;
    while (!open.empty() && (all[open.back()].track != track ||
                             all[open.back()].time.end_ns <= events.start_ns[row])) {
      open.pop_back();
    }
    const auto index = static_cast<std::uint32_t>(all.size());
    all.push_back({.track = track,
                   .name = events.name[row],
                   .depth = std::min(static_cast<std::uint32_t>(open.size()), kDeepestBar),
                   .kind = events.kind[row],
                   .time = {events.start_ns[row], events.end_ns(row)},
                   .inside = open.empty() ? kNoBar : open.back()});
    bar_of[row] = index;
    open.push_back(index);
  }
  find_causes(all, events, launches, bar_of);
  bars.bars = longest(all, most);
  bars.left_out = static_cast<std::int64_t>(rows.size() - bars.bars.size());
  UsedNames used(trace, bars.names);
  for (Bar& bar : bars.bars)
    bar.name = used.index_of(bar.name);
  return bars;
}

std::vector<Bar> longest(const std::vector<Bar>& bars, std::size_t most) {
  if (bars.size() <= most) return bars;
  std::vector<std::int64_t> lengths;
  lengths.reserve(bars.size());
  for (const Bar& bar : bars)
    lengths.push_back(bar.time.length_ns());
  const auto last = lengths.begin() + static_cast<std::ptrdiff_t>(most);
  std::ranges::nth_element(lengths, last, std::greater{});
  const std::int64_t least = *last;
  std::size_t as_short = most;  // number of the shortest bars that still fit
  for (const Bar& bar : bars)
    as_short -= bar.time.length_ns() > least ? 1U : 0U;
  std::vector<std::uint32_t> new_index(bars.size(), kNoBar);
  std::vector<Bar> kept;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const std::int64_t length_ns = bars[i].time.length_ns();
    const bool is_kept = length_ns > least || (length_ns == least && as_short > 0);
    if (!is_kept) continue;
    if (length_ns == least) --as_short;
    new_index[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(bars[i]);
  }
  const auto kept_around = [&](std::uint32_t bar) {
    while (bar != kNoBar && new_index[bar] == kNoBar)
      bar = bars[bar].inside;
    return bar == kNoBar ? kNoBar : new_index[bar];
  };
  for (Bar& bar : kept) {
    bar.inside = kept_around(bar.inside);
    if (bar.cause == kNoBar) continue;
    bar.cause = is_on_device(bar.kind) ? kept_around(bar.cause) : new_index[bar.cause];
  }
  return kept;
}

}  // namespace autotuned::analysis
