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

// The strictest limits of the own groups and all above them, as far as they can be seen. Reads
// /proc/self/cgroup and /proc/self/mountinfo and the files they lead to, all below `root`.
[[nodiscard]] CgroupLimits read_cgroup_limits(const std::string& root);

// What the strictest of those groups leaves: its limit less what it holds, files that the kernel can drop not
// counted; nothing without a limit.
[[nodiscard]] std::optional<std::int64_t> read_cgroup_memory_left(const std::string& root);

// How long the quotas of those groups have stopped their processes so far, the sum of all; nothing where
// the kernel does not count it.
[[nodiscard]] std::optional<std::chrono::nanoseconds> read_cgroup_stops(const std::string& root);
// How many processes the kernel has killed for want of memory: of the own group, as its memory.events (version 2) or
// memory.oom_control (version 1) count them, else of the whole machine.
class OomKills {
 public:
  // Looks for the file, below `root` like the above.
  explicit OomKills(const std::string& root = {});
  // So far; 0 where nothing counts them.
  [[nodiscard]] std::int64_t count() const;

 private:
  std::string file_;
};

}  // namespace autotuned
