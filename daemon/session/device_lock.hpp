// SPDX-License-Identifier: Apache-2.0
// One run at a time on a device: of this user, and on a GPU of all users.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

struct LockFolders {
  std::filesystem::path own;              // lock_folder() of daemon/common/places.hpp
  std::filesystem::path shared = "/tmp";  // where every user may make files
};

// Held until the last copies of its descriptors close, in this process and in those that inherited them.
struct DeviceLock {
  Descriptor own;       // among the runs of this user
  Descriptor shared;    // among users
  Descriptor folder;    // while it is open, systemd-tmpfiles does not tidy the own folder up
  std::string problem;  // why `shared` is not held although the device is a GPU; else empty

  // For trainers to inherit.
  [[nodiscard]] std::vector<int> descriptors() const;
};

// Is told who has the device, and waits a little; false ends the waiting.
using OnBusy = std::function<bool(const std::string& holder)>;

// `device` as of device_of(), `holder` for people who wait. The lock among users is one that nobody need
// respect, and that anybody may hold or spoil: where it cannot be had at all, the device is taken
// without it. ErrorKind::cancelled when `on_busy` gave up.
[[nodiscard]] Result<DeviceLock> lock_device(const std::string& device, const std::string& holder,
                                             const LockFolders& folders, const OnBusy& on_busy);

}  // namespace autotuned::daemon
