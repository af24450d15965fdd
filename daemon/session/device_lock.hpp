// SPDX-License-Identifier: Apache-2.0
// Locks a device, so that one run at a time uses it: among the runs of this user, and on a GPU among all users.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

struct LockFolders {
  std::filesystem::path own;              // lock_folder() of daemon/common/installation_paths.hpp
  std::filesystem::path shared = "/tmp";  // where every user may make files
};

// Held until the last copies of its descriptors close, in this process and in those that inherited them.
struct DeviceLock {
  Descriptor own;       // among the runs of this user
  Descriptor shared;    // among users
  Descriptor folder;    // while it is open, systemd-tmpfiles does not clean the user's own folder
  std::string problem;  // why `shared` is not held although the device is a GPU; else empty

  // The descriptors that trainers inherit.
  [[nodiscard]] std::vector<int> descriptors() const;
};

// Those of all GPUs that the ranks of a run use.
struct DeviceLocks {
  std::vector<DeviceLock> all;

  [[nodiscard]] std::vector<int> descriptors() const;
};

// The devices in the order in which every run locks them, each once: so no two runs wait for each other.
[[nodiscard]] std::vector<std::string> lock_order(std::vector<std::string> devices);

// Called while the device is taken, with a text about the holder. It waits a little and returns true, or returns false
// to give up.
using OnBusy = std::function<bool(const std::string& holder)>;

// Waits for the device and locks it. `device` is device_of(); `holder` is shown to others who wait. Other users may
// ignore, hold or spoil the lock among users: if it cannot be made at all, the device is taken without it.
// ErrorKind::cancelled: `on_busy` gave up.
[[nodiscard]] Result<DeviceLock> lock_device(const std::string& device, const std::string& holder,
                                             const LockFolders& folders, const OnBusy& on_busy);

}  // namespace autotuned::daemon
