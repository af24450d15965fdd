// SPDX-License-Identifier: Apache-2.0
// The conditions of the machine that disturb measurements and that no knob changes: clock governors, heat, swapping, other
// programs, a hypervisor, a quota. Read from /proc, /sys and NVML; what cannot be read is unknown.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/machine/nvml.hpp"

namespace autotuned {

// One look. Sums count from the boot, so that two looks tell what happened between them.
struct MachineState {
  int cpus = 0;  // of the affinity mask
  // Of the allowed CPUs' clocks: how many CPUs each governs.
  std::map<std::string, int> governors;
  std::int64_t memory_available_bytes =
      0;  // without swapping, within the control group; 0: not known

  // Of the CPUs of the affinity mask, by all programs, in seconds.
  struct CpuTime {
    double busy = 0.0;
    double idle = 0.0;
    double stolen = 0.0;  // wanted, while the hypervisor gave the CPU to others
  };
  std::optional<CpuTime> cpu_time;
  double own_cpu_time = 0.0;  // of this process and all that it started, in seconds

  std::optional<std::int64_t> heat_events;  // times that a CPU was slowed down for its temperature
  std::optional<std::int64_t> swapped_bytes;            // to and from swap
  std::optional<std::chrono::nanoseconds> quota_stops;  // of our control groups' processes
  std::vector<GpuState> gpus;
};

// Load of other programs is a finding over this share of the allowed CPUs' time. Less is what any machine does beside, and
// does not matter: both sides of a pair meet it, and it costs a rate no more than what pairs differ by anyhow.
inline constexpr double kLoadThatMatters = 0.1;

struct MachineFinding {
  std::string subject;  // "clock", "heat", "swap", "load", "hypervisor", "quota", "GPU"
  std::string text;     // one sentence: what, and what to do about it
};

[[nodiscard]] MachineState read_machine_state();
// The same below another root, without GPUs: for tests.
[[nodiscard]] MachineState read_machine_state_below(const std::string& root);

// What one look tells. `gpu` is the UUID of the GPU that matters, empty for none; whatever computes on it is
// taken for another program's, so look before anything is started there.
[[nodiscard]] std::vector<MachineFinding> findings_at(const MachineState& state,
                                                      const std::string& gpu);

// What happened between two looks: nothing in less than half a second.
[[nodiscard]] std::vector<MachineFinding> findings_between(const MachineState& before,
                                                           const MachineState& after,
                                                           const std::string& gpu);

}  // namespace autotuned
