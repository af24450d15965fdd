// SPDX-License-Identifier: Apache-2.0
// The device of a session's run, which nobody else uses meanwhile.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/session/device_lock.hpp"
#include "daemon/session/session_control.hpp"
#include "daemon/trainers/trainer_job.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

class SessionDevice {
 public:
  // `machine` and `control` must outlive it.
  SessionDevice(const recipes::Recipe& recipe, const Machine& machine, SessionControl& control);

  // Ends what killed runs have left behind, then waits until the device is free or the session is asked to stop;
  // both are reported to `control`. Errors are those of lock_device().
  [[nodiscard]] Result<void> lock();
  // Whether the job, whose trainer answered `load` with these facts, is on another device than was expected: that is
  // this session's device from now on, and lock() must be called for it. What was locked is free.
  [[nodiscard]] bool moves_to(const Json& facts);

  // For trainers to inherit.
  [[nodiscard]] std::vector<int> descriptors() const { return lock_.descriptors(); }
  // The UUID of the GPU; empty on the CPU.
  [[nodiscard]] std::string gpu() const { return device_ == "cpu" ? "" : device_; }

 private:
  std::string recipe_name_;
  const Machine& machine_;
  SessionControl& control_;
  std::string device_;
  DeviceLock lock_;
};

// Starts the job with these locks and the device's, and anew where its trainer is on another device than was locked.
// The time that the start took which counts.
[[nodiscard]] Result<std::chrono::nanoseconds> start_on(SessionDevice& device, TrainerJob& job,
                                                        const Configuration& configuration,
                                                        const std::vector<int>& other_locks);

}  // namespace autotuned::daemon
