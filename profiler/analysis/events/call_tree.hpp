// SPDX-License-Identifier: Apache-2.0
// The events of the host as trees, one for each thread: who called whom, and who launched what.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

inline constexpr std::uint32_t kNoNode = traces::kNoDetail;

struct CallNode {
  Row row = 0;
  std::uint32_t parent = kNoNode;  // stands before this one
  // The topmost of a chain of only children with the same name, which stands for the chain: all of its
  // figures are there.
  std::uint32_t stands_for_it = 0;
  std::uint32_t children = 0;
  std::int64_t inner_ns = 0;  // what is in the tree directly below, and calls of the runtime
  std::int64_t device_self_ns = 0;
  std::int64_t device_total_ns = 0;
};

// `operators` has operators, steps, loading and communication; `everything` also annotations and calls of
// modules, so that self times there leave these out.
enum class CallTreeOf { operators, everything };

// Older versions of PyTorch wrote whole microseconds, and a program that reads moments since 1970 as doubles and writes
// them again rounds them to quarters of one: an event may end so much later than the one that called it.
inline constexpr std::int64_t kRoundingNs = 1'000;

// Whether an event that begins no later than `inner`, on the same thread, and ends at `outer_end_ns` holds it, but for
// rounding. Neighbours that overlap by rounding have more of their time outside of each other than inside; where it is as
// much, whole microseconds are those of a caller and what it calls.
[[nodiscard]] bool holds(std::int64_t outer_end_ns, Interval inner);

// By thread and time, whatever holds another before it. Two events of one thread that overlap without one
// holding the other are damage: they become neighbours.
[[nodiscard]] std::vector<CallNode> call_tree(const traces::Trace& trace, const Launches& launches,
                                              CallTreeOf what);

// The figures of the nodes anew: only what lies within `stretches` counts.
void charge_within(std::vector<CallNode>& nodes, const traces::Trace& trace,
                   const Launches& launches, const Stretches& stretches);

// The sum, or the largest number where it would overflow: work below events that hold each other is counted
// for each, and a hostile trace may have many.
[[nodiscard]] std::int64_t bounded_sum(std::int64_t a, std::int64_t b);

// Whether it is an operator of the program's own, and not of the framework around the model.
[[nodiscard]] bool is_counted_operator(const traces::Trace& trace, Row row);

}  // namespace autotuned::analysis
