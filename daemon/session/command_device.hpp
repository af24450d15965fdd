// SPDX-License-Identifier: Apache-2.0
// The device of a command that starts trainers itself, without a session process, its folder of logs, and the
// signals that end it.
#pragma once

#include <csignal>
#include <filesystem>
#include <string>

#include "base/descriptor.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/session/device_lock.hpp"
#include "daemon/trainers/trainer_client.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// SIGINT and SIGTERM ask the trainer to stop, for its lifetime.
class SignalCancel final : public CancelSource {
 public:
  SignalCancel();
  ~SignalCancel() override;
  SignalCancel(const SignalCancel&) = delete;
  SignalCancel& operator=(const SignalCancel&) = delete;

  [[nodiscard]] int descriptor() const override { return signals_.get(); }
  bool is_requested() override;

 private:
  sigset_t before_{};
  Descriptor signals_;
  bool is_requested_ = false;
};

// Waits, and says on standard error for whom. `command` is its name, for others who wait. Errors are those of
// lock_folder() and lock_device().
[[nodiscard]] Result<DeviceLock> lock_device_for(const std::string& command,
                                                 const recipes::Recipe& recipe,
                                                 const Machine& machine);

// Makes the folder in which trainers write, and keeps runs and other commands out of it while a copy of the
// descriptor is open: trainers inherit it. Not open where the file system has no locks, which standard error
// says. ErrorKind::busy names who is there.
[[nodiscard]] Result<Descriptor> lock_logs_for(const std::string& command,
                                               const recipes::Recipe& recipe,
                                               const std::filesystem::path& folder);

}  // namespace autotuned::daemon
