// SPDX-License-Identifier: Apache-2.0
// The thread of the host that ran the forward operator of a node of the backward pass. A node names that thread by autograd's own
// number, which no trace maps to a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Identifies an operator by its sequence number, which is unique within the thread that counts it.
struct CountedOperator {
  std::uint32_t thread = 0;  // of the host: index into Trace::threads
  std::int64_t sequence = 0;

  friend bool operator==(const CountedOperator&, const CountedOperator&) = default;
};
struct CountedOperatorHash {
  std::size_t operator()(const CountedOperator& one) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
    return std::hash<std::uint64_t>{}(one.thread * kGolden ^
                                      static_cast<std::uint64_t>(one.sequence));
  }
};

// Returns for each of autograd's numbers (Events::forward_thread) the thread that counted most of the sequence numbers that its nodes
// name. If several threads counted the same ones (replicas of one model), the lower number belongs to the thread that began first,
// because a thread gets its number with its first operator. Numbers that fit no thread are left out.
[[nodiscard]] std::unordered_map<std::uint32_t, std::uint32_t> forward_threads(
    const traces::Events& events);

}  // namespace autotuned::analysis
