// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/modules.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "profiler/analysis/events/forward_threads.hpp"
#include "profiler/traces/classification.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::Trace;

constexpr std::uint32_t kNoModule = kNoNode;
constexpr int kDeepestModule = 100;  // below it, a module belongs to the one that holds it

bool is_backward_node(const Trace& trace, Row row) {
  const Events& events = trace.events;
  if (events.kind[row] != EventKind::cpu_operator) return false;
  return (events.is_backward[row] && events.sequence[row] != traces::kNoId) ||
         trace.name_of(row).ends_with("AccumulateGrad");
}

// Finds the modules and, for each node of the call tree, the one that it belongs to.
class ModuleFinder {
 public:
  ModuleFinder(const Trace& trace, const std::vector<CallNode>& nodes)
      : trace_(trace),
        events_(trace.events),
        nodes_(nodes),
        module_of_(nodes.size(), kNoModule),
        backward_root_of_(nodes.size(), kNoNode),
        threads_(forward_threads(trace.events)) {}

  ModuleTable find() {
    go_forward();
    go_backward();
    charge();
    sum_up();
    return sorted();
  }

 private:
  void go_forward() {
    std::unordered_map<CountedOperator, std::int64_t, CountedOperatorHash> latest_start;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const CallNode& node = nodes_[i];
      const std::uint32_t above = node.parent == kNoNode ? kNoModule : module_of_[node.parent];
      if (node.parent != kNoNode) backward_root_of_[i] = backward_root_of_[node.parent];
      if (backward_root_of_[i] == kNoNode && is_backward_node(trace_, node.row)) {
        backward_root_of_[i] = i;
      }
      // A forward pass that runs again inside the backward pass (checkpointing) counts as backward.
      if (backward_root_of_[i] != kNoNode) continue;
      module_of_[i] = above;
      if (events_.kind[node.row] == EventKind::module) {
        module_of_[i] = child(above, events_.name[node.row]);
        ++table_.rows[module_of_[i]].calls;
        continue;
      }
      const CountedOperator counted{events_.thread[node.row], events_.sequence[node.row]};
      if (counted.sequence == traces::kNoId || events_.is_backward[node.row]) continue;
      // If several operators have the number, the last one created the node of the backward pass.
      const auto [latest, is_new] = latest_start.try_emplace(counted, events_.start_ns[node.row]);
      if (!is_new && latest->second > events_.start_ns[node.row]) continue;
      latest->second = events_.start_ns[node.row];
      module_of_operator_[counted] = module_of_[i];
    }
  }

  // Returns the module in whose forward the operator ran that created the node; nothing if it is not known.
  std::optional<std::uint32_t> module_of_forward(Row row) const {
    const auto thread = threads_.find(events_.forward_thread[row]);
    if (thread == threads_.end()) return std::nullopt;
    const auto found = module_of_operator_.find({thread->second, events_.sequence[row]});
    if (found == module_of_operator_.end()) return std::nullopt;
    return found->second;
  }

  void go_backward() {
    std::uint32_t previous = kNoModule;
    std::uint32_t thread = 0;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const std::uint32_t root = backward_root_of_[i];
      if (root == kNoNode) continue;
      const Row row = nodes_[i].row;
      if (root != i) {
        module_of_[i] = module_of_[root];
        continue;
      }
      if (events_.thread[row] != thread) previous = kNoModule;
      thread = events_.thread[row];
      const auto forward = module_of_forward(row);
      if (forward) previous = *forward;
      const bool has_number = events_.sequence[row] != traces::kNoId;
      module_of_[i] = has_number && !forward ? kNoModule : previous;
    }
  }

  void charge() {
    // The node is below an operator outside of all modules, whose time already includes it.
    std::vector<bool> is_below_outside(nodes_.size());
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const CallNode& node = nodes_[i];
      const EventKind kind = events_.kind[node.row];
      const std::int64_t length_ns = events_.length_ns[node.row];
      const bool is_covered = node.parent != kNoNode && is_below_outside[node.parent];
      ModuleTime& time = time_of(module_of_[i]);
      if (backward_root_of_[i] != kNoNode) {
        time.backward_device_ns += node.device_self_ns;
        if (backward_root_of_[i] != i) continue;
        time.backward_host_ns += length_ns;
        if (is_covered) table_.outside.forward_host_ns -= length_ns;
        continue;
      }
      time.forward_device_ns += node.device_self_ns;
      if (kind == EventKind::module) {
        time.forward_host_ns += length_ns;
        const std::uint32_t above = node.parent == kNoNode ? kNoModule : module_of_[node.parent];
        if (above != kNoModule) table_.rows[above].own.forward_host_ns -= length_ns;
        if (is_covered) table_.outside.forward_host_ns -= length_ns;
      } else if (module_of_[i] == kNoModule) {
        const bool holds_the_rest = kind == EventKind::step || kind == EventKind::annotation;
        if (!is_covered && !holds_the_rest) time.forward_host_ns += length_ns;
        is_below_outside[i] = is_covered || !holds_the_rest;
      }
    }
  }

  void sum_up() {
    // With rounding, the inner parts may be longer than the whole.
    for (ModuleRow& row : table_.rows)
      row.own.forward_host_ns = std::max<std::int64_t>(0, row.own.forward_host_ns);
    table_.outside.forward_host_ns = std::max<std::int64_t>(0, table_.outside.forward_host_ns);
    for (auto row = table_.rows.rbegin(); row != table_.rows.rend(); ++row) {
      add(row->total, row->own);
      if (row->parent != kNoModule) add(table_.rows[row->parent].total, row->total);
    }
  }

  // A module comes before those below it, which are sorted by time.
  ModuleTable sorted() {
    std::vector<std::vector<std::uint32_t>> below(table_.rows.size() + 1);
    for (std::uint32_t i = 0; i < table_.rows.size(); ++i) {
      const std::uint32_t parent = table_.rows[i].parent;
      below[parent == kNoModule ? table_.rows.size() : parent].push_back(i);
    }
    for (auto& list : below)
      std::ranges::stable_sort(list, std::less{},
                               [&](std::uint32_t i) { return weight(table_.rows[i]); });
    ModuleTable result{.rows = {}, .outside = table_.outside};
    struct Open {
      std::uint32_t row;
      std::uint32_t parent;  // in the result
    };
    std::vector<Open> open;
    for (const std::uint32_t i : below.back())
      open.push_back({i, kNoModule});
    while (!open.empty()) {
      const Open next = open.back();
      open.pop_back();
      const auto index = static_cast<std::uint32_t>(result.rows.size());
      result.rows.push_back(std::move(table_.rows[next.row]));
      result.rows.back().parent = next.parent;
      for (const std::uint32_t i : below[next.row])
        open.push_back({i, index});
    }
    return result;
  }

  static std::int64_t weight(const ModuleRow& row) {
    return bounded_sum(bounded_sum(row.total.forward_host_ns, row.total.backward_host_ns),
                       bounded_sum(row.total.forward_device_ns, row.total.backward_device_ns));
  }

  static void add(ModuleTime& to, const ModuleTime& what) {
    to.forward_host_ns = bounded_sum(to.forward_host_ns, what.forward_host_ns);
    to.backward_host_ns = bounded_sum(to.backward_host_ns, what.backward_host_ns);
    to.forward_device_ns = bounded_sum(to.forward_device_ns, what.forward_device_ns);
    to.backward_device_ns = bounded_sum(to.backward_device_ns, what.backward_device_ns);
  }

  ModuleTime& time_of(std::uint32_t module) {
    return module == kNoModule ? table_.outside : table_.rows[module].own;
  }

  std::uint32_t child(std::uint32_t parent, NameId name) {
    if (parent != kNoModule && table_.rows[parent].depth >= kDeepestModule) return parent;
    const auto [found, is_new] =
        children_.try_emplace({parent, name}, static_cast<std::uint32_t>(table_.rows.size()));
    if (!is_new) return found->second;
    ModuleRow row{.path = {}, .name = trace_.names.text(name), .parent = parent};
    if (row.name.starts_with(traces::kModulePrefix)) {
      row.name.erase(0, traces::kModulePrefix.size());
    }
    row.path = row.name;
    if (parent != kNoModule) {
      const ModuleRow& above = table_.rows[parent];
      row.depth = above.depth + 1;
      // Some traces name a module by its whole path.
      if (row.name.starts_with(above.path + ".")) {
        row.name.erase(0, above.path.size() + 1);
      } else {
        row.path = above.path + "." + row.name;
      }
    }
    table_.rows.push_back(std::move(row));
    return found->second;
  }

  const Trace& trace_;
  const Events& events_;
  const std::vector<CallNode>& nodes_;
  ModuleTable table_;
  std::vector<std::uint32_t> module_of_;         // by node
  std::vector<std::uint32_t> backward_root_of_;  // by node: the outermost one of the backward pass
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;  // by autograd's number
  std::map<std::pair<std::uint32_t, NameId>, std::uint32_t> children_;
  std::unordered_map<CountedOperator, std::uint32_t, CountedOperatorHash> module_of_operator_;
};

}  // namespace

ModuleTable module_table(const Trace& trace, const std::vector<CallNode>& nodes) {
  return ModuleFinder(trace, nodes).find();
}

}  // namespace autotuned::analysis
