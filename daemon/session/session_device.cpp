// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/session_device.hpp"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "daemon/common/installation_paths.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/session/wait_notice.hpp"

namespace autotuned::daemon {
namespace {

// How long a killed process may take to be gone. The lock guards the device in any case.
constexpr std::chrono::nanoseconds kOrphanLimit = std::chrono::seconds(2);
constexpr int kLooksAtOrphans = 10;  // two seconds

}  // namespace

SessionDevice::SessionDevice(const recipes::Recipe& recipe, const Machine& machine,
                             SessionControl& control)
    : recipe_name_(recipe.name),
      machine_(machine),
      control_(control),
      devices_(devices_of(recipe, machine)) {}

bool SessionDevice::moves_to(const Json& facts) {
  const std::vector<std::string> told = devices_told(facts, machine_, devices_);
  if (told == devices_) return false;
  devices_ = told;
  locks_ = {};
  return true;
}

// They may hold the lock, or use the device without it.
void SessionDevice::end_orphans() {
  if (const std::size_t ended = end_left_behind(kOrphanLimit); ended > 0) {
    control_.report({{"event", "warning"},
                     {"text",
                      "processes of a run whose command has ended were still there, and "
                      "were ended: " +
                          std::to_string(ended)}});
  }
}

Result<void> SessionDevice::lock() {
  auto folder = lock_folder();
  if (!folder) return tl::unexpected(folder.error());
  end_orphans();
  DeviceLocks locks;
  for (const std::string& device : lock_order(devices_)) {
    auto locked = lock(device, *folder);
    if (!locked) return tl::unexpected(locked.error());
    locks.all.push_back(*std::move(locked));
  }
  locks_ = std::move(locks);
  return {};
}

Result<DeviceLock> SessionDevice::lock(const std::string& device,
                                       const std::filesystem::path& folder) {
  const std::string holder =
      "autotuned, process " + std::to_string(getpid()) + ", recipe " + recipe_name_;
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  WaitNotice notice;
  int looks = 0;
  auto locked = lock_device(device, holder, {folder}, [&](const std::string& who) {
    if (const auto waited = notice.look(now())) {
      control_.report({{"event", "waiting"},
                       {"for", "the device " + device + ", " + who},
                       {"waited_ns", waited->count()}});
    }
    // The holder of the device may have been killed since.
    if (++looks % kLooksAtOrphans == 0) end_orphans();
    // flock has no way to wait for a lock and for a cancel at once.
    pollfd cancel{control_.descriptor(), POLLIN, 0};
    poll(&cancel, 1, 200);
    return !control_.is_requested();
  });
  if (!locked) return locked;
  if (looks > 0) end_orphans();
  if (const auto waited = notice.waited(now())) {
    control_.report(
        {{"event", "waited"}, {"for", "the device " + device}, {"waited_ns", waited->count()}});
  }
  if (!locked->problem.empty()) {
    control_.report(
        {{"event", "warning"},
         {"text", "runs of other users may use the device meanwhile: " + locked->problem}});
  }
  return locked;
}

Result<std::chrono::nanoseconds> start_on(SessionDevice& device, TrainerBackend& job,
                                          const Configuration& configuration,
                                          const std::vector<int>& other_locks) {
  for (;;) {
    std::vector<int> locks = device.descriptors();
    locks.insert(locks.end(), other_locks.begin(), other_locks.end());
    job.inherit_locks(std::move(locks));
    const auto begin = std::chrono::steady_clock::now();
    if (auto started = job.start(configuration); !started) return tl::unexpected(started.error());
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    if (!device.moves_to(job.facts())) return took;
    job.stop();
    if (auto locked = device.lock(); !locked) return tl::unexpected(locked.error());
  }
}

}  // namespace autotuned::daemon
