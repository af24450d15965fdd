// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/flame.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "profiler/analysis/timelines.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::Trace;

// What lies deeper is part of the frame or the row at this depth.
constexpr std::uint32_t kDeepest = 100;

// The names that are used, renumbered.
class UsedNames {
 public:
  UsedNames(const Trace& trace, std::vector<std::string>& names) : trace_(trace), names_(names) {}

  std::uint32_t index_of(NameId name) {
    const auto [found, is_new] =
        indices_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(trace_.names.text(name));
    return found->second;
  }

 private:
  const Trace& trace_;
  std::vector<std::string>& names_;
  std::unordered_map<NameId, std::uint32_t> indices_;
};

// Frames with the trace's own names, every parent before what it holds.
std::vector<Frame> all_frames(const Trace& trace, const std::vector<CallNode>& nodes) {
  const Events& events = trace.events;
  std::vector<Frame> frames;
  std::vector<std::uint32_t> depths;
  std::unordered_map<std::uint64_t, std::uint32_t> frame_of_key;
  std::vector<std::uint32_t> frame_of(nodes.size(), kNoNode);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const CallNode& node = nodes[i];
    const Row row = node.row;
    const std::uint32_t above = node.parent == kNoNode ? kNoNode : frame_of[node.parent];
    const bool is_too_deep = above != kNoNode && depths[above] >= kDeepest;
    // Steps are left out, so that they merge; chains of one name are one frame.
    if (events.kind[row] == EventKind::step || node.stands_for_it != i || is_too_deep) {
      frame_of[i] = above;
      continue;
    }
    const std::uint64_t key = (std::uint64_t{above} << 32U) | events.name[row];
    const auto [found, is_new] =
        frame_of_key.try_emplace(key, static_cast<std::uint32_t>(frames.size()));
    if (is_new) {
      frames.push_back({.name = events.name[row], .parent = above, .kind = events.kind[row]});
      depths.push_back(above == kNoNode ? 0 : depths[above] + 1);
    }
    frame_of[i] = found->second;
    Frame& frame = frames[found->second];
    ++frame.calls;
    frame.host_ns += events.length_ns[row];
    frame.device_ns = bounded_sum(frame.device_ns, node.device_total_ns);
  }
  return frames;
}

}  // namespace

Flame flame_of(const Trace& trace, const std::vector<CallNode>& nodes, std::size_t most) {
  Flame flame;
  std::vector<Frame> frames = all_frames(trace, nodes);
  // A frame weighs as much as the heaviest below it, so that it is never left out without them.
  std::vector<std::int64_t> weights(frames.size());
  for (std::size_t i = frames.size(); i-- > 0;) {
    weights[i] = std::max(weights[i], std::max(frames[i].host_ns, frames[i].device_ns));
    const std::uint32_t parent = frames[i].parent;
    if (parent != kNoNode) weights[parent] = std::max(weights[parent], weights[i]);
  }
  std::vector<bool> is_kept(frames.size(), true);
  if (frames.size() > most) {
    std::vector<std::uint32_t> order(frames.size());
    for (std::uint32_t i = 0; i < order.size(); ++i)
      order[i] = i;
    // Stable: a parent stands before what it holds, and weighs no less.
    std::ranges::stable_sort(order, std::greater{}, [&](std::uint32_t i) { return weights[i]; });
    for (std::size_t i = most; i < order.size(); ++i)
      is_kept[order[i]] = false;
    flame.left_out = static_cast<std::int64_t>(frames.size() - most);
  }
  UsedNames names(trace, flame.names);
  std::vector<std::uint32_t> new_index(frames.size(), kNoNode);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!is_kept[i]) continue;
    new_index[i] = static_cast<std::uint32_t>(flame.frames.size());
    Frame frame = frames[i];
    frame.name = names.index_of(frame.name);
    if (frame.parent != kNoNode) frame.parent = new_index[frame.parent];
    flame.frames.push_back(frame);
  }
  return flame;
}

Bars bars_of(const Trace& trace, Interval window, std::size_t most, std::size_t most_tracks) {
  const Events& events = trace.events;
  Bars bars;
  std::vector<Row> rows;
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
  if (threads.size() > most_tracks) threads.resize(most_tracks);
  std::ranges::stable_sort(threads, {}, [&](std::uint32_t i) { return bool{is_device[i]}; });
  std::vector<std::uint32_t> track_of(counts.size(), kNoNode);
  const std::vector<std::string> names = timeline_names(trace);
  for (const std::uint32_t thread : threads) {
    track_of[thread] = static_cast<std::uint32_t>(bars.tracks.size());
    bars.tracks.push_back(names[thread]);
  }

  // Depth by what is still open, before anything is left out.
  std::ranges::stable_sort(rows, [&](Row a, Row b) {
    const std::uint32_t track_a = track_of[events.thread[a]];
    const std::uint32_t track_b = track_of[events.thread[b]];
    if (track_a != track_b) return track_a < track_b;
    if (events.start_ns[a] != events.start_ns[b]) return events.start_ns[a] < events.start_ns[b];
    return events.length_ns[a] > events.length_ns[b];
  });
  UsedNames used(trace, bars.names);
  std::vector<Row> open;
  std::vector<Bar> all;
  for (const Row row : rows) {
    const std::uint32_t track = track_of[events.thread[row]];
    if (track == kNoNode) continue;
    while (!open.empty() && (events.thread[open.back()] != events.thread[row] ||
                             events.end_ns(open.back()) <= events.start_ns[row])) {
      open.pop_back();
    }
    all.push_back({.track = track,
                   .name = events.name[row],
                   .depth = std::min(static_cast<std::uint32_t>(open.size()), kDeepest),
                   .kind = events.kind[row],
                   .time = {events.start_ns[row], events.end_ns(row)}});
    open.push_back(row);
  }
  if (all.size() > most) {
    std::vector<std::int64_t> lengths;
    lengths.reserve(all.size());
    for (const Bar& bar : all)
      lengths.push_back(bar.time.length_ns());
    const auto last = lengths.begin() + static_cast<std::ptrdiff_t>(most);
    std::ranges::nth_element(lengths, last, std::greater{});
    const std::int64_t least = *last;
    std::size_t as_short =
        most;  // so many that are just as short as the longest left out find a place
    for (const Bar& bar : all)
      as_short -= bar.time.length_ns() > least ? 1U : 0U;
    std::erase_if(all, [&](const Bar& bar) {
      if (bar.time.length_ns() != least) return bar.time.length_ns() < least;
      return as_short == 0 || as_short-- == 0;
    });
  }
  bars.left_out = static_cast<std::int64_t>(rows.size() - all.size());
  for (Bar& bar : all)
    bar.name = used.index_of(bar.name);
  bars.bars = std::move(all);
  return bars;
}

}  // namespace autotuned::analysis
