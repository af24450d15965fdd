// SPDX-License-Identifier: Apache-2.0
// What control groups (version 1, 2 or both) let this process use.
#pragma once

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

}  // namespace autotuned
