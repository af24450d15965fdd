// SPDX-License-Identifier: Apache-2.0
// Locks the device of a session's run, or the GPUs of all its ranks, and follows the run if it turns out to be on another
// device.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/session/device_lock.hpp"
#include "daemon/session/session_control.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

class SessionDevice {
 public:
  // `machine` and `control` must outlive it.
  SessionDevice(const recipes::Recipe& recipe, const Machine& machine, SessionControl& control);

  // Ends what killed runs have left behind, then waits until the device is free or the session is asked to stop;
  // both are reported to `control`. Errors are those of lock_device().
  [[nodiscard]] Result<void> lock();
  // Returns whether the job, whose trainer answered `load` with `facts`, is on another device than expected. If so, the
  // lock is released, that device is this session's from now on, and lock() must be called again.
  [[nodiscard]] bool moves_to(const Json& facts);

  // The descriptors of the locks, which trainers inherit.
  [[nodiscard]] std::vector<int> descriptors() const { return locks_.descriptors(); }
  // The UUID of the GPU, of several ranks that of the first one; empty on the CPU.
  [[nodiscard]] std::string gpu() const {
    return devices_.front() == "cpu" ? "" : devices_.front();
  }

 private:
  [[nodiscard]] Result<DeviceLock> lock(const std::string& device,
                                        const std::filesystem::path& folder);
  void end_orphans();

  std::string recipe_name_;
  const Machine& machine_;
  SessionControl& control_;
  std::vector<std::string> devices_;
  DeviceLocks locks_;
};

// Starts the job with the device's locks and `other_locks`; starts it again if its trainer is on another device than
// the locked one. Returns how long the last start took.
[[nodiscard]] Result<std::chrono::nanoseconds> start_on(SessionDevice& device, TrainerBackend& job,
                                                        const Configuration& configuration,
                                                        const std::vector<int>& other_locks);

}  // namespace autotuned::daemon
