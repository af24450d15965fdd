// SPDX-License-Identifier: Apache-2.0
// The limits that control groups (version 1, 2 or both) set for this process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace autotuned {

struct CgroupLimits {
  std::optional<double> cpus;                // quota divided by period; no value without a quota
  std::optional<std::int64_t> memory_bytes;  // no value without a limit
};

// The strictest limits of the control groups of this process and of all groups above them that are visible.
// Reads /proc/self/cgroup, /proc/self/mountinfo and the files that they name, all below `root`.
[[nodiscard]] CgroupLimits read_cgroup_limits(const std::string& root);

// Returns the smallest rest of memory, in bytes, of any of those groups: its limit less its use, where file pages that the
// kernel can drop do not count as used. Returns nothing if no group has a limit.
[[nodiscard]] std::optional<std::int64_t> read_cgroup_memory_left(const std::string& root);

// Returns how long the CPU quotas of those groups have stopped their processes so far, summed over the groups; nothing if the
// kernel does not count it.
[[nodiscard]] std::optional<std::chrono::nanoseconds> read_cgroup_stops(const std::string& root);
// Reads how many processes the kernel has killed because memory ran out: in the control group of this process, from memory.events
// (version 2) or memory.oom_control (version 1), or else on the whole machine.
class OomKills {
 public:
  // Finds the counter in the file system below `root`.
  explicit OomKills(const std::string& root = {});
  // The number of kills so far; 0 if there is no counter.
  [[nodiscard]] std::int64_t count() const;

 private:
  std::string file_;
};

}  // namespace autotuned
