// SPDX-License-Identifier: Apache-2.0
// Who takes memory and gives it back, and how much there is in use over time. Needs a trace with
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

// "CPU", "GPU 0", …
struct MemoryDevice {
  std::string name;
  std::vector<traces::MemoryPoint> curve;  // by time
  MemoryPeak allocated;
  MemoryPeak reserved;
};

// A call of an operator in which memory was taken or given back, by itself or by what it called.
struct MemoryCall {
  std::uint32_t name = 0;          // index into MemoryUse::names
  std::uint32_t parent = kNoNode;  // the call that it is part of, which stands before it
};

struct MemoryChange {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;  // negative: given back
  std::uint32_t device = 0;
  std::uint32_t call = kNoNode;  // kNoNode: outside of all operators
  std::int64_t address = traces::kNoId;
};

struct MemoryUse {
  std::vector<MemoryDevice> devices;
  std::vector<MemoryChange> changes;  // by time
  std::vector<MemoryCall> calls;
  // An operator that only makes room is named with the one that it makes it for: "aten::ones (aten::empty)".
  std::vector<std::string> names;
};

// REQUIRES: `nodes` is call_tree(trace, …).
[[nodiscard]] MemoryUse memory_use(const traces::Trace& trace, const std::vector<CallNode>& nodes);

struct MemoryRow {
  std::string name;
  std::uint32_t device = 0;
  std::int64_t calls = 0;
  std::int64_t allocations = 0;           // by itself, as all that is called self
  std::int64_t self_increase_bytes = 0;   // taken less given back
  std::int64_t increase_bytes = 0;        // with what it called
  std::int64_t self_allocated_bytes = 0;  // taken
  std::int64_t allocated_bytes = 0;

  friend bool operator==(const MemoryRow&, const MemoryRow&) = default;
};

// Of the changes within `range`; largest increase by itself first.
[[nodiscard]] std::vector<MemoryRow> memory_table(const MemoryUse& use, Interval range);

// One piece of memory, from when it was taken to when it was given back.
struct MemoryBlock {
  std::int64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t call = kNoNode;  // that took it; kNoNode: outside of all operators
  std::int64_t taken_ns = 0;
  std::optional<std::int64_t> released_ns;  // not in the recording, or nobody wrote addresses

  friend bool operator==(const MemoryBlock&, const MemoryBlock&) = default;
};

// The `most` largest of those that were taken within `range`, the largest first.
[[nodiscard]] std::vector<MemoryBlock> memory_blocks(const MemoryUse& use, Interval range,
                                                     std::size_t most);

// At most `most` points that keep every rise and fall that can be seen: of each stretch of time the first, the
// lowest, the highest and the last one.
[[nodiscard]] std::vector<traces::MemoryPoint> thinned(
    const std::vector<traces::MemoryPoint>& curve, std::size_t most);

}  // namespace autotuned::analysis
