// SPDX-License-Identifier: Apache-2.0
// What control groups (version 1, 2 or both) let this process use.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace autotuned {

struct CgroupLimits {
  std::optional<double> cpus;                // quota divided by period; nothing: no quota
  std::optional<std::int64_t> memory_bytes;  // nothing: no limit
};

// The strictest limits of the control groups of this process and of all groups above them that are visible.
// Reads /proc/self/cgroup, /proc/self/mountinfo and the files that they name, all below `root`.
[[nodiscard]] CgroupLimits read_cgroup_limits(const std::string& root);

// The memory, in bytes, that the strictest of those groups has left: its limit less its use, without file
// pages that the kernel can drop. Nothing without a limit.
[[nodiscard]] std::optional<std::int64_t> read_cgroup_memory_left(const std::string& root);

// How long the CPU quotas of those groups have stopped their processes so far, summed over the groups;
// nothing if the kernel does not count it.
[[nodiscard]] std::optional<std::chrono::nanoseconds> read_cgroup_stops(const std::string& root);
// Counts the processes that the kernel has killed because memory ran out: in the own group, from
// memory.events (version 2) or memory.oom_control (version 1), else on the whole machine.
class OomKills {
 public:
  // Looks for the counter below `root`.
  explicit OomKills(const std::string& root = {});
  // The number so far; 0 if there is no counter.
  [[nodiscard]] std::int64_t count() const;

 private:
  std::string file_;
};

}  // namespace autotuned
