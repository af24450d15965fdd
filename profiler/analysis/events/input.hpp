// SPDX-License-Identifier: Apache-2.0
// How batches reach the model: waits for the loader, what the host does during them, and copies to the
// device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/breakdown.hpp"
#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// A wait of the training thread for a batch.
struct LoaderWait {
  Interval time;
  std::string step;  // "12"; empty: outside of all steps
};

// An event that occurred a number of times.
struct Occurrence {
  std::string name;
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
  std::int64_t max_ns = 0;
  std::int64_t bytes = 0;  // bytes of copies

  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

// The loading of batches, as the training thread sees it.
struct InputUse {
  // "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"; empty: no loader was recorded.
  std::string loader;
  std::vector<LoaderWait> waits;  // by time
  double mean_wait_ns = 0;
  std::int64_t median_wait_ns = 0;
  std::int64_t longest_wait_ns = 0;
  double waiting_ratio = 0;  // share of the steps' time, 0 to 1; includes overlapping work
  // Every `period` batches one wait is much longer than the others; as a rule, this is the number of workers.
  // 0: no such pattern.
  std::int64_t period = 0;
  // All three lists begin with the largest total.
  std::vector<Occurrence> inside;       // operators called by the training thread while it loads
  std::vector<Occurrence> annotations;  // record_function of the program, all threads
  std::vector<Occurrence> copies;       // between host and devices, by kind
};

// REQUIRES: `nodes` is call_tree(trace, …).
[[nodiscard]] InputUse input_use(const traces::Trace& trace, const std::vector<CallNode>& nodes,
                                 const Breakdown& breakdown);

// Returns all recorded waits for a loader, by time. They may overlap.
[[nodiscard]] Intervals loader_waits(const traces::Trace& trace);

// Waits that are much longer than the others and recur every `period` batches; 0: none.
struct Rhythm {
  std::int64_t period = 0;
  std::vector<std::size_t> long_waits;  // indices of the long waits; empty without a period
};
[[nodiscard]] Rhythm rhythm_of(const Intervals& waits);

}  // namespace autotuned::analysis
