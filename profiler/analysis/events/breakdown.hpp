// SPDX-License-Identifier: Apache-2.0
// The parts of the time of a step. Every moment is charged to one part, so the parts add up to the step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/events/cpu_phases.hpp"
#include "profiler/analysis/events/intervals.hpp"
#include "profiler/analysis/events/launches.hpp"
#include "profiler/traces/trace.hpp"

namespace autotuned::analysis {

// The parts of a step, by priority: a moment that belongs to several parts is charged to the first of them.
enum class Part { kernel, copy, fill, communication, runtime, data_loading, cpu, other };
inline constexpr std::size_t kParts = 8;
// "Kernel", "Memcpy", …, as PyTorch's profiler plugin called them.
[[nodiscard]] const char* to_string(Part part);

// A step and the parts of its time.
struct Step {
  std::string name;  // "12" for ProfilerStep#12; "0" if the trace marks no steps and counts as one
  Interval time;
  std::array<std::int64_t, kParts> part_ns{};  // adds up to the length of `time`
  // The time of Part::cpu by phase; adds up to it.
  std::array<std::int64_t, kCpuPhases> cpu_phase_ns{};
};

// The steps of a trace and the parts of their time.
struct Breakdown {
  std::vector<Step> steps;  // by time, disjoint; never empty
  // Whether the trace marks steps (ProfilerStep#N).
  bool has_steps = false;
  // The recorded stretches: each from the first to the last of consecutive step numbers. Between two
  // stretches the profiler only waited and warmed up.
  Stretches stretches;
  // The same on the host's clock: outside of these the host only waits for the profiler.
  Stretches on_host;
  // Steps at the end that are left out, because the recording stopped before the device had finished their
  // work.
  int unfinished_steps = 0;
  // Whether the trace distinguishes phases of the host's operators; else all of it is `elsewhere`.
  bool has_cpu_phases = false;
  // The moments of every part, also those charged to another part; `other` is empty.
  std::array<Intervals, kParts> all;

  [[nodiscard]] double mean_step_ns() const;
  [[nodiscard]] double mean_part_ns(Part part) const;
  [[nodiscard]] double mean_phase_ns(CpuPhase phase) const;
  // The share of the steps' time, 0 to 1, that is charged to `part`; 0 for steps without a length.
  [[nodiscard]] double ratio_of(Part part) const;
};

// With a device, a step lasts until the device has finished the work launched in it, and begins no earlier
// than the end of the step before. REQUIRES: the trace has at least one event.
[[nodiscard]] Breakdown breakdown_of(const traces::Trace& trace, const Launches& launches);

// Returns for each row whether it is a kernel of a collective operation, by its own name or by that of the operator that launched it.
[[nodiscard]] std::vector<bool> communication_rows(const traces::Trace& trace);

}  // namespace autotuned::analysis
