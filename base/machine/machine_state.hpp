// SPDX-License-Identifier: Apache-2.0
// Conditions of the machine that disturb measurements and that no knob changes: clock governors, heat,
// swapping, other programs, a hypervisor, a CPU quota. Read from /proc, /sys and NVML; what cannot be read is
// unknown.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/nvml.hpp"

namespace autotuned {

// The conditions at one moment. Counters and times count from the boot, so the difference of two states shows what happened in
// between.
struct MachineState {
  int cpus = 0;  // CPUs in the affinity mask
  // The number of allowed CPUs that each clock governor controls.
  std::map<std::string, int> governors;
  // Memory available without swapping and within the limit of the control group; 0: not known.
  std::int64_t memory_available_bytes = 0;

  // The time of the CPUs in the affinity mask, for all programs together, in seconds.
  struct CpuTime {
    double busy = 0.0;
    double idle = 0.0;
    double stolen = 0.0;  // a program could run, but the hypervisor gave the CPU to another machine
  };
  std::optional<CpuTime> cpu_time;
  // The CPU time, in seconds, of this process, of the other processes that count as own, and of their descendants.
  double own_cpu_time = 0.0;

  // How often a CPU was slowed down because of its temperature.
  std::optional<std::int64_t> heat_events;
  std::optional<std::int64_t> swapped_bytes;  // bytes written to and read from swap
  // How long CPU quotas stopped our control groups.
  std::optional<std::chrono::nanoseconds> quota_stops;
  std::vector<GpuState> gpus;
};

// The load of other programs is a finding if it takes more than this share of the allowed CPUs' time. Less load is normal on any
// machine and does no harm: it slows both sides of a pair, by no more than the noise between pairs.
inline constexpr double kLoadThatMatters = 0.1;

// Returns the share, 0 to 1, of the allowed CPUs' time between two states that other programs used or a hypervisor gave to other
// machines. Returns nothing if it is not known, or if less than half a second passed.
[[nodiscard]] std::optional<double> other_work_ratio(const MachineState& before,
                                                     const MachineState& after);

// A condition that disturbs measurements.
struct MachineFinding {
  std::string subject;  // "clock", "heat", "swap", "load", "hypervisor", "quota", "GPU"
  std::string text;     // one sentence: the condition, and what to do about it
};

[[nodiscard]] MachineState read_machine_state();
// The same for tests: reads /proc and /sys below another root ("": the real ones), without GPUs. `own`: further processes that
// count as own.
[[nodiscard]] MachineState read_machine_state_below(const std::string& root,
                                                    const std::vector<int>& own = {});

// Returns the findings about one state. `gpu`: the UUID of the GPU to be used, or empty. Every process that computes on that GPU
// counts as another program, so read the state before a trainer starts there.
[[nodiscard]] std::vector<MachineFinding> findings_at(const MachineState& state,
                                                      const std::string& gpu);

// Returns the findings about the time between two states; none if less than half a second passed.
[[nodiscard]] std::vector<MachineFinding> findings_between(const MachineState& before,
                                                           const MachineState& after,
                                                           const std::string& gpu);

}  // namespace autotuned
