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

// A CancelSource that SIGINT and SIGTERM request, for as long as it lives.
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

// Locks the device of the recipe, or the GPUs of all its ranks. If it must wait, it says on standard error for whom. `command` is the name that
// others who wait are told. Errors are those of lock_folder() and lock_device().
[[nodiscard]] Result<DeviceLocks> lock_device_for(const std::string& command,
                                                  const recipes::Recipe& recipe,
                                                  const Machine& machine);

// Makes the folder in which trainers write, and locks it against runs and other commands while a copy of the descriptor
// is open; trainers inherit it. If the file system has no locks, the descriptor is not open, and standard error says
// so. ErrorKind::busy names the holder.
[[nodiscard]] Result<Descriptor> lock_logs_for(const std::string& command,
                                               const recipes::Recipe& recipe,
                                               const std::filesystem::path& folder);

}  // namespace autotuned::daemon
