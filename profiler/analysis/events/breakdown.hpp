// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes: every moment is charged once, so the parts add up to the step.
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

// In the order in which they claim a moment that belongs to several.
enum class Part { kernel, copy, fill, communication, runtime, data_loading, cpu, other };
inline constexpr std::size_t kParts = 8;
// "Kernel", "Memcpy", …, as PyTorch's profiler plugin called them.
[[nodiscard]] const char* to_string(Part part);

struct Step {
  std::string name;  // "12" of ProfilerStep#12; "0" when the trace has no steps and is taken as one
  Interval time;
  std::array<std::int64_t, kParts> part_ns{};  // adds up to the length of `time`
  // Of what is charged to Part::cpu, to which it adds up.
  std::array<std::int64_t, kCpuPhases> cpu_phase_ns{};
};

struct Breakdown {
  std::vector<Step> steps;  // by time, disjoint; never empty
  // True where the trace marks steps (ProfilerStep#N).
  bool has_steps = false;
  // What was recorded: from the first to the last of the steps whose numbers follow one another. Between
  // two stretches the profiler only waited and warmed up.
  Stretches stretches;
  // The same by the host's clock alone: outside of it the host waits for the profiler's sake.
  Stretches on_host;
  // Left out at the end: the recording stopped before the device had done all of their work.
  int unfinished_steps = 0;
  // Whether the trace tells any phase of the host's operators from the others; else all of it is `elsewhere`.
  bool has_cpu_phases = false;
  std::array<Intervals, kParts>
      all;  // every part, whether claimed by another one or not; `other` empty

  [[nodiscard]] double mean_step_ns() const;
  [[nodiscard]] double mean_part_ns(Part part) const;
  [[nodiscard]] double mean_phase_ns(CpuPhase phase) const;
  // The share of the steps that is charged to `part`; 0 for steps without a length.
  [[nodiscard]] double ratio_of(Part part) const;
};

// Where there is a device, a step lasts until the device has done what was launched in it, and begins no
// earlier than the one before ended.
// REQUIRES: the trace has at least one event.
[[nodiscard]] Breakdown breakdown_of(const traces::Trace& trace, const Launches& launches);

// Kernels of a collective operation, by their own name or by the operator that launched them.
[[nodiscard]] std::vector<bool> communication_rows(const traces::Trace& trace);

}  // namespace autotuned::analysis
