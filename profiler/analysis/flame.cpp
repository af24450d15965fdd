// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/flame.hpp"

#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "profiler/analysis/events/stacks.hpp"
#include "profiler/analysis/used_names.hpp"
#include "profiler/traces/classification.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::PythonCall;
using traces::Trace;

// Makes frames with the ids of the trace's names. A parent comes before its children.
class FrameMaker {
 public:
  FrameMaker(const Trace& trace, const std::vector<CallNode>& nodes)
      : trace_(trace), nodes_(nodes) {}

  // Puts the calls of `order` (indices of Trace::python_calls) around the nodes.
  std::vector<FlameFrame> make(const std::vector<std::uint32_t>& order) {
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Place place = place_of(nodes_[i].row);
      while (next < order.size() && place_of(trace_.python_calls[order[next]]) <= place)
        add(trace_.python_calls[order[next++]]);
      add(i);
    }
    while (next < order.size())
      add(trace_.python_calls[order[next++]]);
    // Backwards, so that all frames below a frame are summed before the frame itself.
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      if (frame->parent == kNoNode) continue;
      std::int64_t& above_ns = frames_[frame->parent].device_ns;
      above_ns = bounded_sum(above_ns, frame->device_ns);
    }
    return std::move(frames_);
  }

 private:
  // By thread and time; an event comes before those inside it.
  using Place = std::tuple<std::uint32_t, std::int64_t, std::int64_t>;
  struct Open {
    std::uint32_t thread;
    std::int64_t end_ns;
    std::uint32_t frame;
  };

  Place place_of(Row row) const {
    const Events& events = trace_.events;
    return {events.thread[row], events.start_ns[row], -events.length_ns[row]};
  }
  static Place place_of(const PythonCall& call) {
    return {call.thread, call.start_ns, -call.length_ns};
  }

  void add(std::uint32_t index) {
    const Events& events = trace_.events;
    const CallNode& node = nodes_[index];
    const Row row = node.row;
    // Steps are left out, so that they merge. A chain with one name becomes one frame.
    if (events.kind[row] == EventKind::step) return;
    const std::uint32_t above =
        close_for(events.thread[row], events.start_ns[row], events.end_ns(row));
    const bool is_new = node.stands_for_it == index && !is_too_deep(above);
    const std::uint32_t at = is_new ? frame(above, events.name[row], events.kind[row]) : above;
    if (is_new) count(at, events.length_ns[row]);
    if (at != kNoNode) {
      frames_[at].device_ns = bounded_sum(frames_[at].device_ns, node.device_self_ns);
    }
    open_.push_back({events.thread[row], events.end_ns(row), at});
  }

  void add(const PythonCall& call) {
    const std::string& name = trace_.names.text(call.name);
    // Modules are in the events, and built-in functions repeat operators.
    if (is_built_in(name) || name.starts_with(traces::kModulePrefix)) return;
    const std::int64_t end_ns = call.start_ns + call.length_ns;
    const std::uint32_t above = close_for(call.thread, call.start_ns, end_ns);
    if (is_too_deep(above)) return;
    const std::uint32_t at = frame(above, call.name, EventKind::annotation);
    count(at, call.length_ns);
    open_.push_back({call.thread, end_ns, at});
  }

  // Returns the frame of the call that contains this stretch of time.
  std::uint32_t close_for(std::uint32_t thread, std::int64_t start_ns, std::int64_t end_ns) {
    while (!open_.empty() && (open_.back().thread != thread || open_.back().end_ns <= start_ns ||
                              !holds(open_.back().end_ns, {start_ns, end_ns}))) {
      open_.pop_back();
    }
    return open_.empty() ? kNoNode : open_.back().frame;
  }

  bool is_too_deep(std::uint32_t above) const {
    return above != kNoNode && depths_[above] >= kDeepestCall;
  }

  std::uint32_t frame(std::uint32_t above, NameId name, EventKind kind) {
    const auto [found, is_new] = frame_of_key_.try_emplace(
        (std::uint64_t{above} << 32U) | name, static_cast<std::uint32_t>(frames_.size()));
    if (is_new) {
      frames_.push_back({.name = name, .parent = above, .kind = kind});
      depths_.push_back(above == kNoNode ? 0 : depths_[above] + 1);
    }
    return found->second;
  }

  void count(std::uint32_t at, std::int64_t length_ns) {
    ++frames_[at].calls;
    frames_[at].host_ns = bounded_sum(frames_[at].host_ns, length_ns);
  }

  const Trace& trace_;
  const std::vector<CallNode>& nodes_;
  std::vector<FlameFrame> frames_;
  std::vector<int> depths_;
  std::unordered_map<std::uint64_t, std::uint32_t> frame_of_key_;
  std::vector<Open> open_;
};

}  // namespace

Flame flame_of(const Trace& trace, const std::vector<CallNode>& nodes, std::size_t most,
               FlameOf what) {
  Flame flame;
  const bool is_with_python = what == FlameOf::python_too;
  const std::vector<FlameFrame> frames =
      FrameMaker(trace, nodes)
          .make(is_with_python ? python_calls_in_order(trace) : std::vector<std::uint32_t>());
  // A frame weighs at least as much as the heaviest frame below it, so that it is never left out before that one.
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
    // The sort is stable: a parent comes before its children, and weighs no less.
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
    FlameFrame frame = frames[i];
    frame.name = names.index_of(frame.name);
    if (frame.parent != kNoNode) frame.parent = new_index[frame.parent];
    flame.frames.push_back(frame);
  }
  return flame;
}

}  // namespace autotuned::analysis
