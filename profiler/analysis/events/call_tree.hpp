// SPDX-License-Identifier: Apache-2.0
// The events of the host as trees, one for each thread: which event called which, and which device work each
// launched.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

inline constexpr std::uint32_t kNoNode = traces::kNoDetail;

// An event of the host in its call tree. Times in ns.
struct CallNode {
  Row row = 0;
  std::uint32_t parent = kNoNode;  // its index is smaller
  // The topmost node of a chain of only children with the same name. It has all figures of the chain.
  std::uint32_t stands_for_it = 0;
  std::uint32_t children = 0;
  std::int64_t inner_ns = 0;  // time of the child nodes and of calls of the runtime
  std::int64_t device_self_ns = 0;
  std::int64_t device_total_ns = 0;
};

// The events of a call tree. `operators`: operators, steps, loading and communication. `everything`: also annotations and calls of
// modules, whose time is then not part of self times.
enum class CallTreeOf { operators, everything };

// The largest rounding error of a time, in ns. Older versions of PyTorch wrote whole microseconds, and a
// program that stores times since 1970 as doubles rounds them to quarters of a microsecond; so an event may
// seem to end later than its caller, by up to this.
inline constexpr std::int64_t kRoundingNs = 1'000;

// Whether an event that begins no later than `inner`, on the same thread, and ends at `outer_end_ns` contains
// it, except for rounding. Neighbours that overlap only by rounding have more time outside of each other than
// inside. If both are equal, times are whole microseconds and the two are a caller and its callee.
[[nodiscard]] bool holds(std::int64_t outer_end_ns, Interval inner);

// Returns the nodes by thread and time; a caller comes before its callees. Two events of one thread that overlap without one
// containing the other are damage; they become siblings.
[[nodiscard]] std::vector<CallNode> call_tree(const traces::Trace& trace, const Launches& launches,
                                              CallTreeOf what);

// Computes the figures of the nodes again, counting only time within `stretches`.
void charge_within(std::vector<CallNode>& nodes, const traces::Trace& trace,
                   const Launches& launches, const Stretches& stretches);

// Returns the sum, or the largest number if it would overflow: work below nested events counts for each of them, and
// an invalid trace may nest many.
[[nodiscard]] std::int64_t bounded_sum(std::int64_t a, std::int64_t b);

// Whether the row is an operator of the program itself, and not of the framework around the model.
[[nodiscard]] bool is_counted_operator(const traces::Trace& trace, Row row);

}  // namespace autotuned::analysis
