// SPDX-License-Identifier: Apache-2.0
// What several processes exchange: how much of it hides behind work, and who waits for whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// One collective operation of one rank.
struct Collective {
  std::string name;
  std::int64_t length_ns = 0;
  std::string what = {};   // "allreduce"; empty where the trace does not say
  std::int64_t bytes = 0;  // that this rank gives; 0: it gives nothing, or the trace does not say
};

// Of one rank, within its steps. On devices: kernels. Without one: operations of the host, beside the
// operators of other threads.
struct Communication {
  std::int64_t window_ns = 0;  // length of the stretches
  std::int64_t computation_ns = 0;
  std::int64_t communication_ns = 0;
  std::int64_t overlapped_ns = 0;      // both at once
  std::vector<Collective> operations;  // by start
  bool has_shapes = false;             // so that an operation without bytes gives nothing

  [[nodiscard]] std::int64_t exposed_ns() const { return communication_ns - overlapped_ns; }
};

[[nodiscard]] Communication communication_of(const traces::Trace& trace,
                                             const Stretches& stretches);

// The calls of one name that do the same over all ranks. The n-th call of each rank is taken for the same operation: the rank
// that comes last waits for nobody, so its time is that of the transfer.
struct CollectiveRow {
  std::string name;
  std::string what;           // Collective::what
  std::int64_t calls = 0;     // of one rank, the most
  std::int64_t total_ns = 0;  // mean over the ranks, and so below
  std::int64_t transfer_ns = 0;
  std::int64_t waiting_ns = 0;  // for other ranks
  // That all calls of a rank give together, the most of any rank; nothing where one does not say.
  std::optional<std::int64_t> bytes;
};

// Largest total first. With one rank, or with ranks that do not do the same operations the same number of
// times, nothing is known of waiting: it is all transfer.
[[nodiscard]] std::vector<CollectiveRow> collective_table(
    const std::vector<const Communication*>& ranks);

}  // namespace autotuned::analysis
