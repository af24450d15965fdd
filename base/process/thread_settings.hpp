// SPDX-License-Identifier: Apache-2.0
// What decides how much of the machine the threads of a process group get. Any process of the same user can change it from outside,
// also while the group is stopped (sched_setscheduler, sched_setaffinity, setpriority, ioprio_set).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned {

struct ThreadSettings {
  int policy = 0;              // SCHED_OTHER and so on
  int niceness = 0;            // lower is more urgent
  int real_time_priority = 0;  // of SCHED_FIFO and SCHED_RR; higher is more urgent
  int io_priority = 0;         // of ioprio_get(); -1 if that is unknown
  std::string cpus;            // allowed ones, "0-3,8"
  std::string groups;          // cgroups; of a main thread also the autogroup of the process
  friend bool operator==(const ThreadSettings&, const ThreadSettings&) = default;
};

struct ThreadId {
  pid_t process = 0;
  pid_t thread = 0;
  std::int64_t start_ticks = 0;  // since boot: distinguishes two threads with the same number
  friend auto operator<=>(const ThreadId&, const ThreadId&) = default;
};

using GroupSettings = std::map<ThreadId, ThreadSettings>;

struct ThreadText {
  ThreadSettings settings;
  std::int64_t start_ticks = 0;
  bool is_ending = false;  // or has ended: its settings are no longer all there
};
// Reads a thread from the text of /proc/PID/task/TID/stat and status; without `io_priority` and `groups`.
[[nodiscard]] Result<ThreadText> parse_thread(std::string_view stat, std::string_view status);

// Returns the settings of all threads of the processes in a group. Reads all processes of the machine, which takes some
// milliseconds. A process that has left the group does not count.
[[nodiscard]] GroupSettings settings_of_group(pid_t group);
// Returns the settings that the same threads have now, without those that have ended.
[[nodiscard]] GroupSettings settings_now(const GroupSettings& before);

enum class CpusCount { yes, no };

// Returns what has changed in the threads that both have, for a message: "scheduling policy (SCHED_OTHER to SCHED_IDLE), allowed CPUs
// (0-3 to 0), in 7 threads". The values are those of the first such thread. Empty if nothing has changed.
[[nodiscard]] std::string changed_settings(const GroupSettings& before, const GroupSettings& now,
                                           CpusCount cpus = CpusCount::yes);

// Compares the most urgent thread of two groups. Returns how they differ, for a message: "SCHED_OTHER with niceness -5 and
// SCHED_OTHER with niceness 0". Empty if they are equally urgent, or if one has no threads. Threads that are less urgent than others
// of their group do not count: a thread may give way.
[[nodiscard]] std::string unequal_urgency(const GroupSettings& one, const GroupSettings& other);

}  // namespace autotuned
