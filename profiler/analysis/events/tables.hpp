// SPDX-License-Identifier: Apache-2.0
// Totals by operator and by kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/analysis/events/stacks.hpp"
#include "profiler/analysis/events/tensor_cores.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The totals of an operator.
struct OperatorRow {
  std::string name;
  std::int64_t calls = 0;
  std::int64_t host_total_ns = 0;
  std::int64_t host_self_ns = 0;  // without operators and runtime calls inside
  // The time of kernels, copies and fills that the operator, or operators that it called, launched.
  std::int64_t device_total_ns = 0;
  std::int64_t device_self_ns = 0;
  std::string shapes;  // of the inputs, as in the trace; empty if rows are by name only
  // Floating-point operations of all calls together (flops.hpp); 0: not known.
  double flop = 0;
  std::string stack;  // stack_text(); empty if rows are not by stack, or the stack is not known

  friend bool operator==(const OperatorRow&, const OperatorRow&) = default;
};

// Totals of the whole recording, inside and outside of steps. The largest self time (host and device together) comes first. An operator
// and its only child count once if they have the same name. OperatorsBy::stacks uses `stacks`, which must belong to the trace.
enum class OperatorsBy { name, shapes, stacks };
[[nodiscard]] std::vector<OperatorRow> operator_table(const traces::Trace& trace,
                                                      const Launches& launches,
                                                      OperatorsBy by = OperatorsBy::name,
                                                      const Stacks& stacks = {});

// The table by name for the whole recording and for `stretches`: the calls that begin within them, and the part of each time within
// them. REQUIRES: `nodes` is call_tree(trace, launches, operators).
struct OperatorTables {
  std::vector<OperatorRow> recorded;
  std::vector<OperatorRow> within;
};
[[nodiscard]] OperatorTables operator_tables(const traces::Trace& trace,
                                             std::vector<CallNode> nodes, const Launches& launches,
                                             const Stretches& stretches);

// The totals of a kernel.
struct KernelRow {
  std::string name;
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
  std::int64_t min_ns = 0;
  std::int64_t max_ns = 0;
  // Means weighted by duration; kernels without the figure count as 0. Nothing if no kernel has it.
  std::optional<double> blocks_per_sm;
  std::optional<double> occupancy_percent;
  TensorCores tensor_cores = TensorCores::no;
};

// Covers the whole recording; the largest total first.
[[nodiscard]] std::vector<KernelRow> kernel_table(const traces::Trace& trace);

}  // namespace autotuned::analysis
