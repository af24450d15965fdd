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

struct OperatorRow {
  std::string name;
  std::int64_t calls = 0;
  std::int64_t host_total_ns = 0;
  std::int64_t host_self_ns = 0;  // without the operators and runtime calls inside
  // Kernels, copies and fills that were launched by it or by operators that it called.
  std::int64_t device_total_ns = 0;
  std::int64_t device_self_ns = 0;
  std::string shapes;  // of the inputs, as the trace has them; empty where rows are by name only
  // Floating-point operations of all calls together (flops.hpp); 0 where they are not known.
  double flop = 0;
  std::string stack;  // stack_text(); empty if rows are not by stack, or the stack is not known

  friend bool operator==(const OperatorRow&, const OperatorRow&) = default;
};

// Covers the whole recording, inside and outside of steps. Largest self time (host and device together)
// first. An operator whose only child has the same name counts once with it. OperatorsBy::stacks uses
// `stacks`, which must be of the same trace.
enum class OperatorsBy { name, shapes, stacks };
[[nodiscard]] std::vector<OperatorRow> operator_table(const traces::Trace& trace,
                                                      const Launches& launches,
                                                      OperatorsBy by = OperatorsBy::name,
                                                      const Stacks& stacks = {});

// The table by name of the whole recording, and that of `stretches`: calls that begin within them, and the
// part of each time within them. REQUIRES: `nodes` is call_tree(trace, launches, operators).
struct OperatorTables {
  std::vector<OperatorRow> recorded;
  std::vector<OperatorRow> within;
};
[[nodiscard]] OperatorTables operator_tables(const traces::Trace& trace,
                                             std::vector<CallNode> nodes, const Launches& launches,
                                             const Stretches& stretches);

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
