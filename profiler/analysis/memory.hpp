// SPDX-License-Identifier: Apache-2.0
// Which operators allocate and release memory, and how much is in use over time. Needs a trace with
// profile_memory=True.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/events/intervals.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

struct MemoryPeak {
  std::int64_t bytes = 0;
  std::int64_t time_ns = 0;
};

// The memory of a device: "CPU", "GPU 0", …
struct MemoryDevice {
  std::string name;
  std::vector<traces::MemoryPoint> curve;  // by time
  MemoryPeak allocated;
  MemoryPeak reserved;
};

// A call of an operator in which memory was allocated or released, by itself or by operators that it called.
struct MemoryCall {
  std::uint32_t name = 0;          // index into MemoryUse::names
  std::uint32_t parent = kNoNode;  // the enclosing call; its index is smaller
};

// An allocation or a release.
struct MemoryChange {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;  // negative: released
  std::uint32_t device = 0;
  std::uint32_t call = kNoNode;  // kNoNode: outside of all operators
  std::int64_t address = traces::kNoId;
};

// The use of memory over time.
struct MemoryUse {
  std::vector<MemoryDevice> devices;
  std::vector<MemoryChange> changes;  // by time
  std::vector<MemoryCall> calls;
  // The name of an operator that only allocates for another includes the other: "aten::ones (aten::empty)".
  std::vector<std::string> names;
};

// REQUIRES: `nodes` is call_tree(trace, …).
[[nodiscard]] MemoryUse memory_use(const traces::Trace& trace, const std::vector<CallNode>& nodes);

// What the calls of an operator allocate on a device.
struct MemoryRow {
  std::string name;
  std::uint32_t device = 0;
  std::int64_t calls = 0;
  std::int64_t allocations = 0;           // by the operator itself, as are the self_ figures
  std::int64_t self_increase_bytes = 0;   // allocated less released
  std::int64_t increase_bytes = 0;        // includes operators that it called
  std::int64_t self_allocated_bytes = 0;  // allocated
  std::int64_t allocated_bytes = 0;

  friend bool operator==(const MemoryRow&, const MemoryRow&) = default;
};

// Sums the changes within `range`. The largest increase by the operator itself comes first.
[[nodiscard]] std::vector<MemoryRow> memory_table(const MemoryUse& use, Interval range);

// One block of memory, from its allocation to its release.
struct MemoryBlock {
  std::int64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t call = kNoNode;  // the call that allocated it; kNoNode: outside of all operators
  std::int64_t taken_ns = 0;
  // No value: not in the recording, or addresses were not recorded.
  std::optional<std::int64_t> released_ns;

  friend bool operator==(const MemoryBlock&, const MemoryBlock&) = default;
};

// Returns the `most` largest blocks that were allocated within `range`, the largest first.
[[nodiscard]] std::vector<MemoryBlock> memory_blocks(const MemoryUse& use, Interval range,
                                                     std::size_t most);

// Returns at most `most` points of the curve that keep every visible rise and fall: the first, lowest, highest and last point of each
// stretch of time.
[[nodiscard]] std::vector<traces::MemoryPoint> thinned(
    const std::vector<traces::MemoryPoint>& curve, std::size_t most);

}  // namespace autotuned::analysis
