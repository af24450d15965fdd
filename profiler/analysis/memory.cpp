// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/memory.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::MemoryPoint;
using traces::NameId;
using traces::Trace;

// Deeper calls are charged to the one at this depth: a hostile trace may nest a million.
constexpr int kDeepestCall = 200;

bool only_makes_room(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name == "aten::resize_";
}

// Returns the innermost operator at the time of each point; kNoNode if there is none.
std::vector<std::uint32_t> innermost(const Trace& trace, const std::vector<CallNode>& nodes) {
  const Events& events = trace.events;
  std::vector<std::uint32_t> order(trace.memory.size());
  for (std::uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) {
    return std::pair(trace.memory[i].thread, trace.memory[i].time_ns);
  });
  std::vector<std::uint32_t> result(trace.memory.size(), kNoNode);
  std::vector<std::uint32_t> open;
  std::uint32_t next = 0;
  for (const std::uint32_t i : order) {
    const MemoryPoint& point = trace.memory[i];
    const std::pair at(point.thread, point.time_ns);
    while (next < nodes.size() &&
           std::pair(events.thread[nodes[next].row], events.start_ns[nodes[next].row]) <= at) {
      while (!open.empty() && open.back() != nodes[next].parent)
        open.pop_back();
      open.push_back(next++);
    }
    while (!open.empty() && (events.thread[nodes[open.back()].row] != point.thread ||
                             events.end_ns(nodes[open.back()].row) < point.time_ns)) {
      open.pop_back();
    }
    if (!open.empty()) result[i] = open.back();
  }
  return result;
}

// The calls to which memory is charged, each kept once.
class CallKeeper {
 public:
  CallKeeper(const Trace& trace, const std::vector<CallNode>& nodes, MemoryUse& use)
      : trace_(trace), nodes_(nodes), use_(use) {}

  // Returns kNoNode for a node outside of all operators.
  std::uint32_t keep(std::uint32_t node) {
    std::vector<std::uint32_t> path;  // from the inside out, only calls that are not kept yet
    std::uint32_t above = kNoNode;
    for (; node != kNoNode; node = nodes_[node].parent) {
      if (!is_operator(node)) continue;
      if (const auto found = call_of_.find(node); found != call_of_.end()) {
        above = found->second;
        break;
      }
      path.push_back(node);
    }
    for (auto inner = path.rbegin(); inner != path.rend(); ++inner) {
      const int depth = above == kNoNode ? 0 : depths_[above] + 1;
      if (depth < kDeepestCall) {
        const auto call = static_cast<std::uint32_t>(use_.calls.size());
        use_.calls.push_back({name_index(*inner, above), above});
        depths_.push_back(depth);
        above = call;
      }
      call_of_[*inner] = above;
    }
    return above;
  }

 private:
  // The topmost node represents a chain, because the others are the same operator again.
  [[nodiscard]] bool is_operator(std::uint32_t node) const {
    const EventKind kind = trace_.events.kind[nodes_[node].row];
    const bool is_called = kind == EventKind::cpu_operator || kind == EventKind::data_loading ||
                           kind == EventKind::communication;
    return is_called && nodes_[node].stands_for_it == node;
  }

  std::uint32_t name_index(std::uint32_t node, std::uint32_t above) {
    const NameId name = trace_.events.name[nodes_[node].row];
    const std::string& text = trace_.names.text(name);
    std::uint32_t for_whom = kNoNode;
    if (only_makes_room(text)) {
      for (for_whom = above; for_whom != kNoNode; for_whom = use_.calls[for_whom].parent) {
        if (!is_room_[use_.calls[for_whom].name]) break;
      }
    }
    const std::uint32_t whose = for_whom == kNoNode ? kNoNode : use_.calls[for_whom].name;
    const auto [found, is_new] = name_indices_.try_emplace(
        (std::uint64_t{name} << 32U) | whose, static_cast<std::uint32_t>(use_.names.size()));
    if (is_new) {
      use_.names.push_back(whose == kNoNode ? text : use_.names[whose] + " (" + text + ")");
      is_room_.push_back(only_makes_room(text));
    }
    return found->second;
  }

  const Trace& trace_;
  const std::vector<CallNode>& nodes_;
  MemoryUse& use_;
  std::unordered_map<std::uint32_t, std::uint32_t> call_of_;  // by node
  std::vector<int> depths_;                                   // by call
  std::vector<bool> is_room_;                                 // by name
  std::unordered_map<std::uint64_t, std::uint32_t> name_indices_;
};

std::string device_name(const MemoryPoint& point) {
  if (point.device_type == 0) return "CPU";
  const std::string number = std::to_string(point.device);
  if (point.device_type == 1) return "GPU " + number;
  return "device type " + std::to_string(point.device_type) + ", " + number;
}

}  // namespace

MemoryUse memory_use(const Trace& trace, const std::vector<CallNode>& nodes) {
  MemoryUse use;
  std::map<std::pair<int, int>, std::uint32_t> device_indices;
  for (const MemoryPoint& point : trace.memory)
    device_indices.try_emplace({point.device_type, point.device}, 0);
  std::uint32_t count = 0;
  for (auto& [device, index] : device_indices)
    index = count++;
  use.devices.resize(count);

  const std::vector<std::uint32_t> node_of = innermost(trace, nodes);
  CallKeeper keeper(trace, nodes, use);
  for (std::size_t i = 0; i < trace.memory.size(); ++i) {
    const MemoryPoint& point = trace.memory[i];
    const std::uint32_t device = device_indices.at({point.device_type, point.device});
    use.devices[device].name = device_name(point);
    use.devices[device].curve.push_back(point);
    use.changes.push_back(
        {point.time_ns, point.bytes, device, keeper.keep(node_of[i]), point.address});
  }
  std::ranges::stable_sort(use.changes, {}, &MemoryChange::time_ns);
  for (MemoryDevice& device : use.devices) {
    std::ranges::stable_sort(device.curve, {}, &MemoryPoint::time_ns);
    for (const MemoryPoint& point : device.curve) {
      if (point.allocated_bytes > device.allocated.bytes) {
        device.allocated = {point.allocated_bytes, point.time_ns};
      }
      if (point.reserved_bytes > device.reserved.bytes) {
        device.reserved = {point.reserved_bytes, point.time_ns};
      }
    }
  }
  return use;
}

std::vector<MemoryRow> memory_table(const MemoryUse& use, Interval range) {
  std::vector<MemoryRow> table;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> row_of;  // device, name
  std::unordered_set<std::uint64_t> seen;                                 // device, call
  const auto find = [&](std::uint32_t device, std::uint32_t name) -> std::size_t {
    const auto [found, is_new] = row_of.try_emplace({device, name}, table.size());
    if (is_new) {
      table.push_back(
          {.name = name == kNoNode ? "(no operator)" : use.names[name], .device = device});
    }
    return found->second;
  };
  std::vector<std::uint32_t> names;
  for (const MemoryChange& change : use.changes) {
    if (change.time_ns < range.start_ns || change.time_ns >= range.end_ns) continue;
    names.clear();
    const std::int64_t taken = std::max<std::int64_t>(change.bytes, 0);
    const auto add = [&](std::uint32_t call) {
      const std::uint32_t name = call == kNoNode ? kNoNode : use.calls[call].name;
      MemoryRow& row = table[find(change.device, name)];
      // If an operator calls itself, memory inside counts once.
      if (std::ranges::find(names, name) == names.end()) {
        row.increase_bytes = bounded_sum(row.increase_bytes, change.bytes);
        row.allocated_bytes = bounded_sum(row.allocated_bytes, taken);
        names.push_back(name);
      }
      const bool is_known =
          call != kNoNode && !seen.insert((std::uint64_t{change.device} << 32U) | call).second;
      if (!is_known) ++row.calls;
      if (call != change.call) return;
      row.self_increase_bytes = bounded_sum(row.self_increase_bytes, change.bytes);
      row.self_allocated_bytes = bounded_sum(row.self_allocated_bytes, taken);
      if (change.bytes > 0) ++row.allocations;
    };
    add(change.call);
    for (std::uint32_t call = change.call; call != kNoNode && use.calls[call].parent != kNoNode;) {
      call = use.calls[call].parent;
      add(call);
    }
  }
  std::ranges::stable_sort(table, std::greater{}, &MemoryRow::self_increase_bytes);
  return table;
}

std::vector<MemoryBlock> memory_blocks(const MemoryUse& use, Interval range, std::size_t most) {
  std::vector<MemoryBlock> blocks;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::size_t> taken;  // by device and address
  for (const MemoryChange& change : use.changes) {
    const std::pair place(change.device, change.address);
    if (change.bytes > 0) {
      if (change.address != traces::kNoId) taken[place] = blocks.size();
      blocks.push_back({.bytes = change.bytes,
                        .device = change.device,
                        .call = change.call,
                        .taken_ns = change.time_ns});
    } else if (const auto found = taken.find(place); found != taken.end()) {
      blocks[found->second].released_ns = change.time_ns;
      taken.erase(found);
    }
  }
  std::erase_if(blocks, [&](const MemoryBlock& block) {
    return block.taken_ns < range.start_ns || block.taken_ns >= range.end_ns;
  });
  std::ranges::stable_sort(blocks, std::greater{}, &MemoryBlock::bytes);
  if (blocks.size() > most) blocks.resize(most);
  return blocks;
}

std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, std::size_t most) {
  const std::size_t stretches = std::max<std::size_t>(most / 4, 1);
  if (curve.size() <= most) return curve;
  std::vector<MemoryPoint> kept;
  const std::size_t length = (curve.size() + stretches - 1) / stretches;
  for (std::size_t begin = 0; begin < curve.size(); begin += length) {
    const std::size_t end = std::min(begin + length, curve.size());
    std::size_t lowest = begin;
    std::size_t highest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (curve[i].allocated_bytes < curve[lowest].allocated_bytes) lowest = i;
      if (curve[i].allocated_bytes > curve[highest].allocated_bytes) highest = i;
    }
    std::size_t previous = curve.size();
    std::array chosen = {begin, lowest, highest, end - 1};
    std::ranges::sort(chosen);
    for (const std::size_t i : chosen) {
      if (i != previous) kept.push_back(curve[i]);
      previous = i;
    }
  }
  return kept;
}

}  // namespace autotuned::analysis
