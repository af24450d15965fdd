// SPDX-License-Identifier: Apache-2.0
// Communication between processes: how much of it overlaps with computation, and how long ranks wait for each other.
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
  std::string what = {};   // "allreduce"; empty if the trace does not say
  std::int64_t bytes = 0;  // sent by this rank; 0: none, or the trace does not say
};

// Communication of one rank within its steps. With devices: kernels. Without a device: operations of the
// host, compared with the operators of other threads.
struct Communication {
  std::int64_t window_ns = 0;  // total length of the recorded stretches
  std::int64_t computation_ns = 0;
  std::int64_t communication_ns = 0;
  std::int64_t overlapped_ns = 0;      // computation and communication at the same time
  std::vector<Collective> operations;  // by start
  bool has_shapes = false;  // shapes were recorded: an operation without bytes sends nothing

  [[nodiscard]] std::int64_t exposed_ns() const { return communication_ns - overlapped_ns; }
};

[[nodiscard]] Communication communication_of(const traces::Trace& trace,
                                             const Stretches& stretches);

// The calls of one operation over all ranks. The n-th calls of all ranks count as the same operation. The rank that comes last does not
// wait, so its time is the transfer time.
struct CollectiveRow {
  std::string name;
  std::string what;           // Collective::what
  std::int64_t calls = 0;     // the largest number of any rank
  std::int64_t total_ns = 0;  // mean over the ranks, like the times below
  std::int64_t transfer_ns = 0;
  std::int64_t waiting_ns = 0;  // waits for other ranks
  // Bytes that all calls of a rank send together, the largest of any rank; nothing if the trace of a rank
  // does not say.
  std::optional<std::int64_t> bytes;
};

// Largest total first. With one rank, or if the ranks do not run the same operations equally often, waiting
// is not known and all time counts as transfer.
[[nodiscard]] std::vector<CollectiveRow> collective_table(
    const std::vector<const Communication*>& ranks);

}  // namespace autotuned::analysis
