// SPDX-License-Identifier: Apache-2.0
// Which thread of the host ran the forward of a node of the backward pass. A node names it by autograd's own
// number, which no trace explains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// Sequence numbers are unique for the thread that counts them.
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

// The thread of the host by autograd's number (Events::forward_thread): the one that counted most of the
// sequence numbers that its nodes name. Where several did (replicas of one model), the lower number is the
// one that began first, since a thread gets its number with its first operator. A number that fits no thread
// is left out.
[[nodiscard]] std::unordered_map<std::uint32_t, std::uint32_t> forward_threads(
    const traces::Events& events);

}  // namespace autotuned::analysis
