// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/session_device.hpp"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "daemon/common/owner_mark.hpp"
#include "daemon/common/places.hpp"
#include "daemon/common/session_request.hpp"

namespace autotuned::daemon {
namespace {

// For a killed process to be gone; the lock of the device says so in any case.
constexpr std::chrono::nanoseconds kOrphanLimit = std::chrono::seconds(2);
constexpr int kLooksAtOrphans = 10;  // two seconds

}  // namespace

Result<DeviceLock> lock_device_of(const recipes::Recipe& recipe, const Machine& machine,
                                  SessionControl& control) {
  auto folder = lock_folder();
  if (!folder) return tl::unexpected(folder.error());
  // They may hold the lock, or use the device without it.
  const auto end_orphans = [&control] {
    if (const std::size_t ended = end_left_behind(kOrphanLimit); ended > 0) {
      control.report({{"event", "warning"},
                      {"text", "processes that a killed run had left behind were ended: " +
                                   std::to_string(ended)}});
    }
  };
  end_orphans();
  const std::string holder =
      "autotuned, process " + std::to_string(getpid()) + ", recipe " + recipe.name;
  int looks = 0;
  auto lock =
      lock_device(device_of(recipe, machine), holder, {*folder}, [&](const std::string& who) {
        if (looks == 0) {
          control.report({{"event", "waiting"}, {"for", who}});
        }
        // Whoever had the device may have been killed since.
        if (++looks % kLooksAtOrphans == 0) end_orphans();
        // flock has no way to wait for a lock and for a cancel at once.
        pollfd cancel{control.descriptor(), POLLIN, 0};
        poll(&cancel, 1, 200);
        return !control.is_requested();
      });
  if (!lock) return tl::unexpected(lock.error());
  if (looks > 0) end_orphans();
  if (!lock->problem.empty()) {
    control.report(
        {{"event", "warning"},
         {"text", "runs of other users may use the device meanwhile: " + lock->problem}});
  }
  return lock;
}

}  // namespace autotuned::daemon
