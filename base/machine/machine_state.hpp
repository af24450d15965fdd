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

// The conditions at one moment. Sums count from the boot, so the difference of two states shows what happened
// in between.
struct MachineState {
  int cpus = 0;  // of the affinity mask
  // By clock governor: the number of allowed CPUs that it controls.
  std::map<std::string, int> governors;
  // Available without swapping and within the limit of the control group; 0: not known.
  std::int64_t memory_available_bytes = 0;

  // Time of the CPUs of the affinity mask, used by all programs, in seconds.
  struct CpuTime {
    double busy = 0.0;
    double idle = 0.0;
    double stolen = 0.0;  // a program could run, but the hypervisor gave the CPU to another machine
  };
  std::optional<CpuTime> cpu_time;
  double own_cpu_time =
      0.0;  // of this process, others that count as own, and their descendants, in seconds

  // How often a CPU was slowed down because of its temperature.
  std::optional<std::int64_t> heat_events;
  std::optional<std::int64_t> swapped_bytes;  // to and from swap
  // How long CPU quotas stopped our control groups.
  std::optional<std::chrono::nanoseconds> quota_stops;
  std::vector<GpuState> gpus;
};

// Load of other programs is a finding over this share of the allowed CPUs' time. Less is what any machine does beside, and
// does not matter: both sides of a pair meet it, and it costs a rate no more than what pairs differ by anyhow.
inline constexpr double kLoadThatMatters = 0.1;

// The share of the allowed CPUs' time between two states that went to other programs and, by a hypervisor, to other machines: 0 to
// 1. Nothing where it is not known, or if the time is shorter than half a second.
[[nodiscard]] std::optional<double> other_work_ratio(const MachineState& before,
                                                     const MachineState& after);

struct MachineFinding {
  std::string subject;  // "clock", "heat", "swap", "load", "hypervisor", "quota", "GPU"
  std::string text;     // one sentence: what, and what to do about it
};

[[nodiscard]] MachineState read_machine_state();
// The same without GPUs, below another root ("": none). `own`: processes that count as own, too.
[[nodiscard]] MachineState read_machine_state_below(const std::string& root,
                                                    const std::vector<int>& own = {});

// The findings of one state. `gpu`: UUID of the GPU to be used, empty for none. Any process that computes on
// it counts as another program, so read the state before a trainer starts there.
[[nodiscard]] std::vector<MachineFinding> findings_at(const MachineState& state,
                                                      const std::string& gpu);

// The findings about the time between two states; none if it is shorter than half a second.
[[nodiscard]] std::vector<MachineFinding> findings_between(const MachineState& before,
                                                           const MachineState& after,
                                                           const std::string& gpu);

}  // namespace autotuned
