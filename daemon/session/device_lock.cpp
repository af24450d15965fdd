// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/device_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

Result<Descriptor> wait_for(const std::function<Result<Descriptor>()>& try_lock,
                            const OnBusy& on_busy) {
  for (;;) {
    auto lock = try_lock();
    if (lock || lock.error().kind != ErrorKind::busy) return lock;
    if (!on_busy(lock.error().what)) {
      return fail(ErrorKind::cancelled, "stopped while another run had the device");
    }
  }
}

// Where everybody may make files, and nobody can remove those of others.
Result<void> check_shared_folder(const fs::path& folder) {
  struct stat found {};
  constexpr mode_t kNeeded = S_ISVTX | S_IWOTH | S_IXOTH;
  if (::lstat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) ||
      (found.st_mode & kNeeded) != kNeeded || (found.st_uid != 0 && found.st_uid != ::geteuid())) {
    return fail(ErrorKind::unsupported, "it is not a folder of root in which all may make files",
                folder.string());
  }
  return {};
}

Result<Descriptor> try_shared_lock(const fs::path& file) {
  // All users must be able to open the file from its creation on. It holds nothing, and there is no other thread yet
  // that could make files with this umask.
  const mode_t mask = ::umask(0022);
  auto lock = lock_file(file, /*holder=*/"", /*wait=*/false);
  ::umask(mask);
  if (!lock && lock.error().kind == ErrorKind::busy) {
    return fail(ErrorKind::busy, "held by a run of another user", file.string());
  }
  return lock;
}

}  // namespace

std::vector<int> DeviceLock::descriptors() const {
  std::vector<int> descriptors;
  for (const Descriptor* lock : {&own, &shared}) {
    if (lock->is_open()) descriptors.push_back(lock->get());
  }
  return descriptors;
}

std::vector<int> DeviceLocks::descriptors() const {
  std::vector<int> descriptors;
  for (const DeviceLock& lock : all) {
    for (const int one : lock.descriptors())
      descriptors.push_back(one);
  }
  return descriptors;
}

std::vector<std::string> lock_order(std::vector<std::string> devices) {
  std::ranges::sort(devices);
  const auto rest = std::ranges::unique(devices);
  devices.erase(rest.begin(), rest.end());
  return devices;
}

Result<DeviceLock> lock_device(const std::string& device, const std::string& holder,
                               const LockFolders& folders, const OnBusy& on_busy) {
  // The names of some parts of a GPU hold slashes.
  std::string name = "device-" + device + ".lock";
  std::ranges::replace(name, '/', '_');
  DeviceLock lock;
  // systemd-tmpfiles does not clean a locked folder; otherwise a lock of many days could lose its file.
  lock.folder.reset(::open(folders.own.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.folder.is_open()) static_cast<void>(::flock(lock.folder.get(), LOCK_SH | LOCK_NB));

  auto own =
      wait_for([&] { return lock_file(folders.own / name, holder, /*wait=*/false); }, on_busy);
  if (!own) return tl::unexpected(own.error());
  lock.own = *std::move(own);
  if (device == "cpu") return lock;

  auto checked = check_shared_folder(folders.shared);
  auto shared =
      checked ? wait_for([&] { return try_shared_lock(folders.shared / ("autotuned-" + name)); },
                         on_busy)
              : tl::unexpected(checked.error());
  if (!shared && shared.error().kind == ErrorKind::cancelled) return tl::unexpected(shared.error());
  if (shared) {
    lock.shared = *std::move(shared);
  } else {
    lock.problem = shared.error().message();
  }
  return lock;
}

}  // namespace autotuned::daemon
