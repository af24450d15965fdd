// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/call_tree.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::Trace;

bool is_in_tree(EventKind kind, CallTreeOf what) {
  switch (kind) {
    case EventKind::cpu_operator:
    case EventKind::data_loading:
    case EventKind::communication:
    case EventKind::step:
      return true;
    case EventKind::annotation:
    case EventKind::module:
      return what == CallTreeOf::everything;
    case EventKind::runtime_call:
    case EventKind::kernel:
    case EventKind::copy:
    case EventKind::fill:
    case EventKind::overhead:
      break;
  }
  return false;
}

std::vector<CallNode> nodes_of(const Events& events, CallTreeOf what) {
  std::vector<CallNode> nodes;
  for (Row row = 0; row < events.size(); ++row) {
    if (is_in_tree(events.kind[row], what)) nodes.push_back({.row = row});
  }
  std::ranges::stable_sort(nodes, [&](const CallNode& a, const CallNode& b) {
    if (events.thread[a.row] != events.thread[b.row]) {
      return events.thread[a.row] < events.thread[b.row];
    }
    if (events.start_ns[a.row] != events.start_ns[b.row]) {
      return events.start_ns[a.row] < events.start_ns[b.row];
    }
    return events.length_ns[a.row] > events.length_ns[b.row];
  });
  return nodes;
}

Interval time_of(const Events& events, Row row) {
  return {events.start_ns[row], events.end_ns(row)};
}

void find_parents(std::vector<CallNode>& nodes, const Events& events) {
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const Row row = nodes[i].row;
    while (!open.empty() && (events.thread[nodes[open.back()].row] != events.thread[row] ||
                             events.end_ns(nodes[open.back()].row) <= events.start_ns[row] ||
                             !holds(events.end_ns(nodes[open.back()].row), time_of(events, row)))) {
      open.pop_back();
    }
    if (!open.empty()) {
      nodes[i].parent = open.back();
      ++nodes[open.back()].children;
    }
    open.push_back(i);
  }
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    CallNode& node = nodes[i];
    node.stands_for_it = i;
    if (node.parent == kNoNode) continue;
    const CallNode& parent = nodes[node.parent];
    const bool repeats = parent.children == 1 && events.name[parent.row] == events.name[node.row] &&
                         events.kind[parent.row] == EventKind::cpu_operator &&
                         events.kind[node.row] == EventKind::cpu_operator;
    if (repeats) node.stands_for_it = parent.stands_for_it;
  }
}

// Returns the innermost node that contains the call; kNoNode if there is none.
std::uint32_t holder_of(const std::vector<CallNode>& nodes, const Events& events, Row call) {
  const auto place = [&](Row row) { return std::pair(events.thread[row], events.start_ns[row]); };
  const auto after = std::ranges::upper_bound(
      nodes, place(call), {}, [&](const CallNode& node) { return place(node.row); });
  if (after == nodes.begin()) return kNoNode;
  auto holder = static_cast<std::uint32_t>(after - nodes.begin() - 1);
  if (events.thread[nodes[holder].row] != events.thread[call]) return kNoNode;
  while (holder != kNoNode && !holds(events.end_ns(nodes[holder].row), time_of(events, call)))
    holder = nodes[holder].parent;
  return holder == kNoNode ? kNoNode : nodes[holder].stands_for_it;
}

// Charges calls of the runtime and work of devices to the operator with the same external id. In traces of some versions no operator has
// the id of a launch; then the operator that contains the launch is charged.
template <class LengthOf>
void add_launches(std::vector<CallNode>& nodes, const Events& events, const Launches& launches,
                  const LengthOf& length_of) {
  std::unordered_map<std::int64_t, std::uint32_t> node_of;
  for (const CallNode& node : nodes) {
    const std::int64_t id = events.external_id[node.row];
    if (id > 0) node_of.try_emplace(id, node.stands_for_it);
  }
  const auto find = [&](Row row) -> CallNode* {
    if (row == kNoRow) return nullptr;
    const auto found = node_of.find(events.external_id[row]);
    return found == node_of.end() ? nullptr : &nodes[found->second];
  };
  const auto find_holder = [&](Row call) -> CallNode* {
    const std::uint32_t holder = call == kNoRow ? kNoNode : holder_of(nodes, events, call);
    return holder == kNoNode ? nullptr : &nodes[holder];
  };
  for (const Row call : launches.calls) {
    CallNode* node = find(call);
    if (node == nullptr) node = find_holder(call);
    if (node != nullptr) node->inner_ns += length_of(call);
  }
  for (const DeviceEvent& event : launches.device_events) {
    CallNode* node = find(event.launch);
    if (node == nullptr) node = find(event.row);
    if (node == nullptr) node = find_holder(event.launch);
    if (node != nullptr) node->device_self_ns += length_of(event.row);
  }
}

template <class LengthOf>
void charge(std::vector<CallNode>& nodes, const Events& events, const Launches& launches,
            const LengthOf& length_of) {
  add_launches(nodes, events, launches, length_of);
  // Backwards, so that all nodes below a node are summed before the node itself.
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (node->stands_for_it != static_cast<std::uint32_t>(nodes.rend() - node - 1)) continue;
    node->device_total_ns += node->device_self_ns;
    if (node->parent == kNoNode) continue;
    CallNode& parent = nodes[nodes[node->parent].stands_for_it];
    parent.inner_ns += length_of(node->row);
    parent.device_total_ns = bounded_sum(parent.device_total_ns, node->device_total_ns);
  }
}

}  // namespace

bool holds(std::int64_t outer_end_ns, Interval inner) {
  const std::int64_t outside_ns = inner.end_ns - outer_end_ns;
  if (outside_ns <= 0) return true;
  const std::int64_t inside_ns = outer_end_ns - inner.start_ns;
  if (outside_ns > kRoundingNs || outside_ns > inside_ns) return false;
  if (outside_ns < inside_ns) return true;
  // Half inside, half outside. If times and lengths were cut off to whole microseconds, neighbours never overlap, but a callee may end one
  // microsecond after its caller.
  const auto is_whole = [](std::int64_t ns) { return ns % kRoundingNs == 0; };
  return is_whole(outside_ns) && is_whole(outer_end_ns) && is_whole(inner.start_ns);
}

std::int64_t bounded_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

bool is_counted_operator(const Trace& trace, Row row) {
  if (trace.events.kind[row] != EventKind::cpu_operator) return false;
  const std::string& name = trace.name_of(row);
  return name != "DataParallel.forward" && name != "DistributedDataParallel.forward" &&
         !name.starts_with("Optimizer.");
}

std::vector<CallNode> call_tree(const Trace& trace, const Launches& launches, CallTreeOf what) {
  const Events& events = trace.events;
  std::vector<CallNode> nodes = nodes_of(events, what);
  find_parents(nodes, events);
  charge(nodes, events, launches, [&](Row row) { return events.length_ns[row]; });
  return nodes;
}

void charge_within(std::vector<CallNode>& nodes, const Trace& trace, const Launches& launches,
                   const Stretches& stretches) {
  for (CallNode& node : nodes)
    node.inner_ns = node.device_self_ns = node.device_total_ns = 0;
  const Events& events = trace.events;
  charge(nodes, events, launches, [&](Row row) {
    return stretches.length_within_ns({events.start_ns[row], events.end_ns(row)});
  });
}

}  // namespace autotuned::analysis
