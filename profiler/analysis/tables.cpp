// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "profiler/analysis/call_tree.hpp"
#include "profiler/analysis/flops.hpp"

namespace autotuned::analysis {

using traces::EventKind;
using traces::Events;
using traces::Trace;

namespace {

// Of calls of operators, each combination of name and inputs counted once.
class FlopCounter {
 public:
  explicit FlopCounter(const Trace& trace) : trace_(&trace), kinds_(trace.names.size()) {}

  // 0 where it is not known.
  double of(Row row) {
    const Events& events = trace_->events;
    const std::uint32_t shapes = events.shapes[row];
    if (shapes == traces::kNoDetail) return 0;
    Kind& kind = kinds_[events.name[row]];
    if (kind == Kind::unknown) {
      kind = has_flop_formula(trace_->name_of(row)) ? Kind::counted : Kind::other;
    }
    if (kind == Kind::other) return 0;
    const std::uint32_t values = events.values[row];
    const auto [found, is_new] = flop_.try_emplace({events.name[row], shapes, values}, 0.0);
    if (is_new) {
      const auto& names = trace_->names;
      found->second = floating_point_operations(
                          trace_->name_of(row), names.text(shapes),
                          values == traces::kNoDetail ? std::string_view() : names.text(values))
                          .value_or(0.0);
    }
    return found->second;
  }

 private:
  enum class Kind : std::uint8_t { unknown, counted, other };

  const Trace* trace_;
  std::vector<Kind> kinds_;  // by NameId
  std::map<std::array<std::uint32_t, 3>, double> flop_;
};

}  // namespace

std::vector<OperatorRow> operator_table(const Trace& trace, const Launches& launches,
                                        OperatorsBy by, const Stacks& stacks) {
  const Events& events = trace.events;
  const std::vector<CallNode> nodes = call_tree(trace, launches, CallTreeOf::operators);
  std::vector<OperatorRow> table;
  std::unordered_map<std::uint64_t, std::size_t> index_of_key;
  FlopCounter flops(trace);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const CallNode& node = nodes[i];
    if (node.stands_for_it != i || !is_counted_operator(trace, node.row)) continue;
    const bool has_stack = by == OperatorsBy::stacks && node.row < stacks.of_row.size();
    const std::uint32_t shapes = by == OperatorsBy::shapes ? events.shapes[node.row] : kNoNode;
    const std::uint32_t stack = has_stack ? stacks.of_row[node.row] : kNoStack;
    const std::uint64_t key = (std::uint64_t{events.name[node.row]} << 32U) |
                              (by == OperatorsBy::stacks ? stack : shapes);
    const auto [found, is_new] = index_of_key.try_emplace(key, table.size());
    if (is_new) {
      table.emplace_back().name = trace.name_of(node.row);
      if (shapes != kNoNode) table.back().shapes = trace.names.text(shapes);
      if (stack != kNoStack) table.back().stack = stack_text(stacks, stack);
    }
    OperatorRow& row = table[found->second];
    ++row.calls;
    row.host_total_ns += events.length_ns[node.row];
    row.host_self_ns += std::max<std::int64_t>(0, events.length_ns[node.row] - node.inner_ns);
    row.device_total_ns = bounded_sum(row.device_total_ns, node.device_total_ns);
    row.device_self_ns += node.device_self_ns;
    row.flop += flops.of(node.row);
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
    std::uint32_t& index = index_of_name[events.name[row]];
    if (index == kNoNode) {
      index = static_cast<std::uint32_t>(table.size());
      table.emplace_back();
    }
    KernelRow& kernel = table[index];
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
