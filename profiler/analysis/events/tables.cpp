// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "profiler/analysis/events/flops.hpp"

namespace autotuned::analysis {

using traces::EventKind;
using traces::Events;
using traces::Trace;

namespace {

// The floating-point operations of calls. Each combination of name and inputs is computed once.
class FlopCounter {
 public:
  explicit FlopCounter(const Trace& trace) : trace_(&trace), kinds_(trace.names.size()) {}

  // Returns 0 if they are not known.
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

// The key by which calls are put into rows.
struct RowsBy {
  OperatorsBy what = OperatorsBy::name;
  const Stacks* stacks = nullptr;  // OperatorsBy::stacks
};

// The table of nodes. `length_of(row)`: the time that is charged; a call counts if `is_call(row)`.
template <class LengthOf, class IsCall>
std::vector<OperatorRow> table_of(const Trace& trace, const std::vector<CallNode>& nodes, RowsBy by,
                                  const LengthOf& length_of, const IsCall& is_call) {
  const Events& events = trace.events;
  std::vector<OperatorRow> table;
  std::unordered_map<std::uint64_t, std::size_t> index_of_key;
  FlopCounter flops(trace);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const CallNode& node = nodes[i];
    if (node.stands_for_it != i || !is_counted_operator(trace, node.row)) continue;
    const std::int64_t length_ns = length_of(node.row);
    const bool is_counted = is_call(node.row);
    if (!is_counted && length_ns == 0 && node.device_total_ns == 0) continue;
    const bool has_stack = by.what == OperatorsBy::stacks && node.row < by.stacks->of_row.size();
    const std::uint32_t shapes = by.what == OperatorsBy::shapes ? events.shapes[node.row] : kNoNode;
    const std::uint32_t stack = has_stack ? by.stacks->of_row[node.row] : kNoStack;
    const std::uint64_t key = (std::uint64_t{events.name[node.row]} << 32U) |
                              (by.what == OperatorsBy::stacks ? stack : shapes);
    const auto [found, is_new] = index_of_key.try_emplace(key, table.size());
    if (is_new) {
      table.emplace_back().name = trace.name_of(node.row);
      if (shapes != kNoNode) table.back().shapes = trace.names.text(shapes);
      if (stack != kNoStack) table.back().stack = stack_text(*by.stacks, stack);
    }
    OperatorRow& row = table[found->second];
    row.calls += is_counted ? 1 : 0;
    row.host_total_ns += length_ns;
    row.host_self_ns += std::max<std::int64_t>(0, length_ns - node.inner_ns);
    row.device_total_ns = bounded_sum(row.device_total_ns, node.device_total_ns);
    row.device_self_ns += node.device_self_ns;
    if (is_counted) row.flop += flops.of(node.row);
  }
  std::ranges::stable_sort(table, std::greater{}, [](const OperatorRow& row) {
    return row.host_self_ns + row.device_self_ns;
  });
  return table;
}

std::vector<OperatorRow> table_of_all(const Trace& trace, const std::vector<CallNode>& nodes,
                                      RowsBy by) {
  return table_of(
      trace, nodes, by, [&](Row row) { return trace.events.length_ns[row]; },
      [](Row) { return true; });
}

}  // namespace

std::vector<OperatorRow> operator_table(const Trace& trace, const Launches& launches,
                                        OperatorsBy by, const Stacks& stacks) {
  return table_of_all(trace, call_tree(trace, launches, CallTreeOf::operators), {by, &stacks});
}

OperatorTables operator_tables(const Trace& trace, std::vector<CallNode> nodes,
                               const Launches& launches, const Stretches& stretches) {
  OperatorTables tables;
  tables.recorded = table_of_all(trace, nodes, {});
  charge_within(nodes, trace, launches, stretches);
  const Events& events = trace.events;
  tables.within = table_of(
      trace, nodes, {},
      [&](Row row) {
        return stretches.length_within_ns({events.start_ns[row], events.end_ns(row)});
      },
      [&](Row row) { return stretches.hold(events.start_ns[row]); });
  return tables;
}

namespace {

// The mean of a figure over the calls that have it, weighted by their time.
struct TimeMean {
  double sum = 0;
  double ns = 0;
  bool is_known = false;

  void add(float figure, std::int64_t length_ns) {
    if (std::isnan(figure)) return;
    is_known = true;
    sum += static_cast<double>(figure) * static_cast<double>(length_ns);
    ns += static_cast<double>(length_ns);
  }
  [[nodiscard]] std::optional<double> mean() const {
    return is_known ? std::optional(sum / std::max(1.0, ns)) : std::nullopt;
  }
};

}  // namespace

std::vector<KernelRow> kernel_table(const Trace& trace) {
  const Events& events = trace.events;
  std::vector<KernelRow> table;
  std::vector<TimeMean> blocks_per_sm;
  std::vector<TimeMean> occupancy_percent;
  std::vector<std::uint32_t> index_of_name(trace.names.size(), kNoNode);
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::kernel) continue;
    const traces::DeviceDetail& detail = trace.details[events.detail[row]];
    const std::int64_t ns = events.length_ns[row];
    std::uint32_t& index = index_of_name[events.name[row]];
    if (index == kNoNode) {
      index = static_cast<std::uint32_t>(table.size());
      table.emplace_back();
      blocks_per_sm.emplace_back();
      occupancy_percent.emplace_back();
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
    blocks_per_sm[index].add(detail.blocks_per_sm, ns);
    occupancy_percent[index].add(detail.occupancy_percent, ns);
  }
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i].blocks_per_sm = blocks_per_sm[i].mean();
    table[i].occupancy_percent = occupancy_percent[i].mean();
  }
  std::ranges::stable_sort(table, std::greater{}, &KernelRow::total_ns);
  return table;
}

}  // namespace autotuned::analysis
