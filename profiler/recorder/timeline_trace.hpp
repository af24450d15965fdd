// SPDX-License-Identifier: Apache-2.0
// Writes a recording as a trace, with PyTorch's names for events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "profiler/recorder/timeline.hpp"
#include "profiler/recorder/timeline_device.hpp"
#include "profiler/spans.hpp"
#include "profiler/traces/writer.hpp"

namespace autotuned::profiler {

// A named stretch of time on a thread that is not an operator, such as a transform in a worker of the loader.
struct ThreadSpan {
  std::int64_t thread = 0;  // the system's number
  std::string name;
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC, like all times here
  std::int64_t end_ns = 0;
};

// Consecutive steps that were recorded.
struct RecordedSteps {
  std::int64_t first_step = 0;    // number of the first step
  std::vector<SpanRecord> spans;  // spans of the training thread
  Timeline timeline;
  DeviceTimeline device;  // its ScopeIds refer to `timeline` and `spans`
};

// Everything that is written as one trace.
struct Recording {
  std::vector<RecordedSteps> stretches;
  std::vector<ThreadSpan> loading;
  std::int64_t training_thread = 0;  // the system's number
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t lost_events = 0;  // sum over all stretches
  std::string optimizer;         // "sgd"
  bool has_loader_workers = false;
  bool has_shapes = false;
  bool has_memory = false;
  int cpus = 0;  // CPUs that the process may use; 0: not known
  int rank = 0;
  int ranks = 1;  // if more than 1, the trace names the rank
  std::vector<RecordedDevice> devices;
  std::vector<std::string> notes;  // one sentence for each thing that could not be recorded
};

// Also charges backward operators to modules (charge_backward()). `unix_offset_ns` is added to every time.
[[nodiscard]] Result<traces::WrittenTrace> write_recording(Recording& recording,
                                                           std::int64_t unix_offset_ns,
                                                           const std::filesystem::path& file);

// The name of a span in a trace: "ProfilerStep#12" for a step, the names of PyTorch's DataLoader and
// optimizers if they have one for it, else the span's own name.
[[nodiscard]] std::string span_name_in_trace(const std::string& span, std::int64_t step,
                                             const Recording& recording);

// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC, now.
[[nodiscard]] std::int64_t unix_offset_ns();

}  // namespace autotuned::profiler
