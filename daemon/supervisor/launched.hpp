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

struct LaunchPlace {
  std::string launcher;  // "torchrun" or "srun"
  int rank = 0;
  int ranks = 1;      // above 1
  std::string round;  // torchrun starts its processes again after a failure: which time this is
};

// By the variables of torchrun (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE) or else of srun (SLURM_PROCID,
// SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES). Nothing: no launcher, or one that has started a single process.
// ErrorKind::unsupported: several machines; ErrorKind::invalid names a variable that is wrong. `variable` looks one up
// (null: it is not set).
using LaunchVariable = std::function<const char*(const char* name)>;
[[nodiscard]] Result<std::optional<LaunchPlace>> launch_place_from(const LaunchVariable& variable);

// Where these processes meet: a file in `folder`, which only this user can write, with a name that only they know:
// that of the nearest process above them that has no rank, which is the launcher, also where each runs in a script.
[[nodiscard]] std::filesystem::path meeting_file(const std::filesystem::path& folder,
                                                 const LaunchPlace& place);

// The first process holds a lock on that file until it knows how it ends, or is gone. One thread.
class LaunchedLead {
 public:
  // Also removes files of launchers that have ended.
  [[nodiscard]] static Result<LaunchedLead> begin(const std::filesystem::path& file);
  // The others end with this exit code.
  void end(int code);

 private:
  explicit LaunchedLead(Descriptor lock) : lock_(std::move(lock)) {}

  Descriptor lock_;
};

// The exit code of the first process. ErrorKind::timeout: it has not begun within `patience`; ErrorKind::crashed: it
// is gone without one.
[[nodiscard]] Result<int> wait_for_lead(
    const std::filesystem::path& file, std::chrono::nanoseconds patience = std::chrono::minutes(2));

}  // namespace autotuned::daemon
