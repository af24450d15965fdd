// SPDX-License-Identifier: Apache-2.0
// How batches come to the model: waits for the loader, what is done meanwhile, copies to the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/breakdown.hpp"
#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

struct LoaderWait {
  Interval time;
  std::string step;  // "12"; empty: outside of all steps
};

// Something done a number of times.
struct Occurrence {
  std::string name;
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
  std::int64_t max_ns = 0;
  std::int64_t bytes = 0;  // of copies

  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

struct InputUse {
  // "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"; empty: no loader was recorded.
  std::string loader;
  std::vector<LoaderWait> waits;  // by time
  double mean_wait_ns = 0;
  std::int64_t median_wait_ns = 0;
  std::int64_t longest_wait_ns = 0;
  double waiting_ratio = 0;  // of the steps, whatever else went on
  // Every so many batches one is waited for much longer than for the others: as many as there are workers,
  // as a rule. 0: there is no such rhythm.
  std::int64_t period = 0;
  // The largest total first, all three.
  std::vector<Occurrence> inside;       // operators called by the training thread while it loads
  std::vector<Occurrence> annotations;  // record_function of the program, on all threads
  std::vector<Occurrence> copies;       // between host and devices, by kind
};

// REQUIRES: `nodes` is call_tree(trace, …).
[[nodiscard]] InputUse input_use(const traces::Trace& trace, const std::vector<CallNode>& nodes,
                                 const Breakdown& breakdown);

// Every wait for a loader that was recorded, by time. They may overlap.
[[nodiscard]] Intervals loader_waits(const traces::Trace& trace);

// Waits that are much longer than the others, and come back every `period` batches; 0: they do not.
struct Rhythm {
  std::int64_t period = 0;
  std::vector<std::size_t> long_waits;  // which ones; empty without a period
};
[[nodiscard]] Rhythm rhythm_of(const Intervals& waits);

}  // namespace autotuned::analysis
