// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/tables.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::Trace;

constexpr std::uint32_t kNoNode = traces::kNoDetail;

// An event of the host in the tree of what it called.
struct Node {
  Row row = 0;
  std::uint32_t parent = kNoNode;
  // The topmost of a chain of only children with the same name, which stands for the chain.
  std::uint32_t stands_for_it = 0;
  std::uint32_t children = 0;
  std::int64_t inner_ns = 0;  // operators and calls of the runtime inside
  std::int64_t device_self_ns = 0;
  std::int64_t device_total_ns = 0;
};

// Work below operators that hold each other is counted for each: a hostile trace could make it overflow.
std::int64_t bounded_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

bool is_in_tree(EventKind kind) {
  return kind == EventKind::cpu_operator || kind == EventKind::data_loading ||
         kind == EventKind::communication || kind == EventKind::step;
}

bool is_counted(const Trace& trace, Row row) {
  if (trace.events.kind[row] != EventKind::cpu_operator) return false;
  const std::string& name = trace.name_of(row);
  return name != "DataParallel.forward" && name != "DistributedDataParallel.forward" &&
         !name.starts_with("Optimizer.");
}

// Sorted so that whatever holds another comes before it.
std::vector<Node> nodes_of(const Events& events) {
  std::vector<Node> nodes;
  for (Row row = 0; row < events.size(); ++row) {
    if (is_in_tree(events.kind[row])) nodes.push_back({.row = row});
  }
  std::ranges::stable_sort(nodes, [&](const Node& a, const Node& b) {
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

void find_parents(std::vector<Node>& nodes, const Trace& trace) {
  const Events& events = trace.events;
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const Row row = nodes[i].row;
    // Two that overlap without one holding the other are damage: they become neighbours.
    while (!open.empty() && (events.thread[nodes[open.back()].row] != events.thread[row] ||
                             events.end_ns(nodes[open.back()].row) <= events.start_ns[row] ||
                             events.end_ns(nodes[open.back()].row) < events.end_ns(row))) {
      open.pop_back();
    }
    if (!open.empty()) {
      nodes[i].parent = open.back();
      ++nodes[open.back()].children;
    }
    open.push_back(i);
  }
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    node.stands_for_it = i;
    if (node.parent == kNoNode) continue;
    const Node& parent = nodes[node.parent];
    const bool repeats = parent.children == 1 && events.name[parent.row] == events.name[node.row] &&
                         events.kind[parent.row] == EventKind::cpu_operator &&
                         events.kind[node.row] == EventKind::cpu_operator;
    if (repeats) node.stands_for_it = parent.stands_for_it;
  }
}

// Calls of the runtime and work of devices, to the operator that has the same external id.
void add_launches(std::vector<Node>& nodes, const Events& events, const Launches& launches) {
  std::unordered_map<std::int64_t, std::uint32_t> node_of;
  for (const Node& node : nodes) {
    const std::int64_t id = events.external_id[node.row];
    if (id > 0) node_of.try_emplace(id, node.stands_for_it);
  }
  const auto find = [&](Row row) -> Node* {
    if (row == kNoRow) return nullptr;
    const auto found = node_of.find(events.external_id[row]);
    return found == node_of.end() ? nullptr : &nodes[found->second];
  };
  for (const Row call : launches.calls) {
    if (Node* node = find(call)) node->inner_ns += events.length_ns[call];
  }
  for (const DeviceEvent& event : launches.device_events) {
    Node* node = find(event.launch);
    if (node == nullptr) node = find(event.row);
    if (node != nullptr) node->device_self_ns += events.length_ns[event.row];
  }
}

template <class Table>
auto& row_of(Table& table, std::vector<std::uint32_t>& index_of_name, NameId name) {
  if (index_of_name[name] == kNoNode) {
    index_of_name[name] = static_cast<std::uint32_t>(table.size());
    table.emplace_back();
  }
  return table[index_of_name[name]];
}

}  // namespace

std::vector<OperatorRow> operator_table(const Trace& trace, const Launches& launches) {
  const Events& events = trace.events;
  std::vector<Node> nodes = nodes_of(events);
  find_parents(nodes, trace);
  add_launches(nodes, events, launches);
  // Backwards, so that all below a node is summed before the node itself.
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (node->stands_for_it != static_cast<std::uint32_t>(nodes.rend() - node - 1)) continue;
    node->device_total_ns += node->device_self_ns;
    if (node->parent == kNoNode) continue;
    Node& parent = nodes[nodes[node->parent].stands_for_it];
    parent.inner_ns += events.length_ns[node->row];
    parent.device_total_ns = bounded_sum(parent.device_total_ns, node->device_total_ns);
  }

  std::vector<OperatorRow> table;
  std::vector<std::uint32_t> index_of_name(trace.names.size(), kNoNode);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (node.stands_for_it != i || !is_counted(trace, node.row)) continue;
    OperatorRow& row = row_of(table, index_of_name, events.name[node.row]);
    if (row.calls++ == 0) row.name = trace.name_of(node.row);
    row.host_total_ns += events.length_ns[node.row];
    row.host_self_ns += std::max<std::int64_t>(0, events.length_ns[node.row] - node.inner_ns);
    row.device_total_ns = bounded_sum(row.device_total_ns, node.device_total_ns);
    row.device_self_ns += node.device_self_ns;
  }
  std::ranges::stable_sort(table, std::greater{}, [](const OperatorRow& row) {
    return row.host_self_ns + row.device_self_ns;
  });
  return table;
}

std::vector<KernelRow> kernel_table(const Trace& trace) {
  const Events& events = trace.events;
  std::vector<KernelRow> table;
  std::vector<std::uint32_t> index_of_name(trace.names.size(), kNoNode);
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::kernel) continue;
    const traces::DeviceDetail& detail = trace.details[events.detail[row]];
    const std::int64_t ns = events.length_ns[row];
    KernelRow& kernel = row_of(table, index_of_name, events.name[row]);
    if (kernel.calls++ == 0) {
      kernel.name = trace.name_of(row);
      kernel.min_ns = ns;
      kernel.tensor_cores = tensor_cores_of(kernel.name);
    }
    kernel.total_ns += ns;
    kernel.min_ns = std::min(kernel.min_ns, ns);
    kernel.max_ns = std::max(kernel.max_ns, ns);
    const auto add = [&](std::optional<double>& sum, float figure) {
      if (std::isnan(figure)) return;
      sum = sum.value_or(0.0) + static_cast<double>(figure) * static_cast<double>(ns);
    };
    add(kernel.blocks_per_sm, detail.blocks_per_sm);
    add(kernel.occupancy_percent, detail.occupancy_percent);
  }
  for (KernelRow& kernel : table) {
    const double total = std::max(1.0, static_cast<double>(kernel.total_ns));
    for (auto* mean : {&kernel.blocks_per_sm, &kernel.occupancy_percent}) {
      if (*mean) **mean /= total;
    }
  }
  std::ranges::stable_sort(table, std::greater{}, &KernelRow::total_ns);
  return table;
}

}  // namespace autotuned::analysis
