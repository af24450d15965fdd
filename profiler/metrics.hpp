// SPDX-License-Identifier: Apache-2.0
// Named figures of a profile, which plugins read. docs/metrics.md explains each, and which of them are also
// signals of a trace under another name (analysis/findings/signals.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "profiler/operators.hpp"
#include "profiler/spans.hpp"

namespace autotuned::profiler {

// Values by metric name. A metric is absent only where its definition says so.
using Metrics = std::map<std::string, double>;

enum class MetricKind { duration, count, rate, ratio, size };

struct MetricDefinition {
  const char* name;
  const char* unit;
  MetricKind kind;
  const char* meaning;  // one sentence
};

// Every metric that metrics_of() makes, sorted by name.
[[nodiscard]] std::span<const MetricDefinition> metric_definitions();
[[nodiscard]] const char* to_string(MetricKind kind);

// The raw numbers of the profiled steps.
struct ProfileFacts {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::int64_t wall_ns = 0;
  std::int64_t cpu_ns = 0;         // CPU time of the whole process
  std::int64_t kernel_cpu_ns = 0;  // the part of cpu_ns in the kernel
  std::int64_t page_faults = 0;    // page faults that needed no disk
  std::int64_t storage_bytes = 0;  // bytes that the process read from storage
  int cpus_allowed = 1;
  std::vector<SpanTotal> spans;
  std::vector<OperatorTotal> operators;

  std::int64_t loader_samples = 0;    // samples made during the steps, by any thread
  std::int64_t loader_thread_ns = 0;  // thread time for these samples
  // The times of the parts, measured for `timed_samples` of these samples: reading; reading and decoding; and everything before the
  // first transform that draws random numbers.
  std::int64_t timed_samples = 0;
  std::int64_t reading_ns = 0;
  std::int64_t decoding_ns = 0;
  std::int64_t prefix_ns = 0;
  std::int64_t cached_samples = 0;  // samples in the cache
  std::int64_t stored_samples = 0;  // samples of the data set
  std::int64_t cache_bytes = 0;
  std::int64_t cache_fill_ns = 0;
  bool is_float_from_uint8 = false;  // samples are stored in 8 bits and handed over as float32

  std::int64_t rank_wait_ns = 0;  // waits of backward passes for gradients of other ranks

  std::int64_t transfer_bytes = 0;           // moved to the device, or used in place by it
  std::int64_t pageable_transfer_bytes = 0;  // the part copied from memory that is not pinned

  // The time to copy the state for a checkpoint, to write it (both 0 if none was timed), and between two checkpoints.
  std::int64_t checkpoint_copy_ns = 0;
  std::int64_t checkpoint_write_ns = 0;
  std::int64_t checkpoint_every_ns = 0;

  std::int64_t peak_host_bytes = 0;
  std::int64_t pinned_bytes = 0;
  std::int64_t peak_device_bytes = 0;
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  bool has_every_gradient = false;
};

// Computes all metrics. Pure. REQUIRES: steps > 0, and spans with a `step`.
[[nodiscard]] Metrics metrics_of(const ProfileFacts& facts);

}  // namespace autotuned::profiler
