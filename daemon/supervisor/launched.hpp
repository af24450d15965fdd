// SPDX-License-Identifier: Apache-2.0
// A command that a launcher (torchrun, srun) has started several times on this machine. The first of these processes
// does the run and starts the ranks itself; the others wait for it and end as it does.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

struct LauncherRank {
  std::string launcher;  // "torchrun" or "srun"
  int rank = 0;
  int ranks = 1;      // above 1
  std::string round;  // torchrun starts its processes again after a failure: which time this is
};

// Reads the place of this process from the variables of torchrun (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE) or else of srun
// (SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES). Nothing: no launcher, or a launcher with a single
// process. ErrorKind::unsupported: several machines, or a launcher that is not known (RANK, WORLD_SIZE and MASTER_ADDR
// without LOCAL_WORLD_SIZE, and not in a step of several tasks of srun); ErrorKind::invalid names a variable that is
// wrong. `variable` looks one up (null: it is not set).
using LaunchVariable = std::function<const char*(const char* name)>;
[[nodiscard]] Result<std::optional<LauncherRank>> launcher_rank_from(
    const LaunchVariable& variable);

// The file over which these processes coordinate. `folder` is writable for this user only. The name is derived from the
// nearest ancestor process that has no rank: the launcher, also if a script lies between.
[[nodiscard]] std::filesystem::path meeting_file(const std::filesystem::path& folder,
                                                 const LauncherRank& place);

// The first of the processes: it holds a lock on that file until it has written its exit code, or is gone. One thread.
class LaunchedLead {
 public:
  // Takes the lock. Also removes files of launchers that have ended.
  [[nodiscard]] static Result<LaunchedLead> begin(const std::filesystem::path& file);
  // Writes the exit code with which the other processes end.
  void end(int code);

 private:
  explicit LaunchedLead(Descriptor lock) : lock_(std::move(lock)) {}

  Descriptor lock_;
};

// Waits for the first process and returns its exit code. ErrorKind::timeout: it has not begun within `patience`;
// ErrorKind::crashed: it is gone and has written none.
[[nodiscard]] Result<int> wait_for_lead(
    const std::filesystem::path& file, std::chrono::nanoseconds patience = std::chrono::minutes(2));

}  // namespace autotuned::daemon
