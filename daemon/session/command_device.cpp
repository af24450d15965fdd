// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/command_device.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <system_error>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/process/process.hpp"
#include "base/text.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/session/output_folder.hpp"
#include "daemon/session/wait_notice.hpp"

namespace autotuned::daemon {
namespace {

// What commands that wait for the device are told about its holder.
std::string holder_text(const std::string& command, const recipes::Recipe& recipe) {
  return "autotuned " + command + ", process " + std::to_string(getpid()) + ", recipe " +
         recipe.name;
}

Result<DeviceLock> lock_or_wait(const std::string& device, const std::string& holder,
                                const std::filesystem::path& folder) {
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  WaitNotice notice;
  auto lock = lock_device(device, holder, {folder}, [&](const std::string& who) {
    if (const auto waited = notice.look(now())) {
      std::cerr << "waiting for the device " << device << ", " << printable(who)
                << (waited->count() > 0 ? ", " + format_duration(*waited) + " so far" : "") << "\n";
    }
    poll(nullptr, 0, 200);
    return true;
  });
  if (const auto waited = notice.waited(now()); lock && waited) {
    std::cerr << "waited " << format_duration(*waited) << " for the device " << device << "\n";
  }
  if (lock && !lock->problem.empty()) {
    report_warning("runs of other users may use the device meanwhile: " + lock->problem);
  }
  return lock;
}

}  // namespace

SignalCancel::SignalCancel() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  if (!is_ignored(SIGINT)) sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalCancel::~SignalCancel() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool SignalCancel::is_requested() {
  signalfd_siginfo signal{};
  if (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) is_requested_ = true;
  return is_requested_;
}

Result<DeviceLocks> lock_device_for(const std::string& command, const recipes::Recipe& recipe,
                                    const Machine& machine) {
  const auto folder = lock_folder();
  if (!folder) return tl::unexpected(folder.error());
  const std::string holder = holder_text(command, recipe);
  end_left_behind(std::chrono::seconds(2));
  DeviceLocks locks;
  for (const std::string& device : lock_order(devices_of(recipe, machine))) {
    auto lock = lock_or_wait(device, holder, *folder);
    if (!lock) return tl::unexpected(lock.error());
    locks.all.push_back(*std::move(lock));
  }
  return locks;
}

Result<Descriptor> lock_logs_for(const std::string& command, const recipes::Recipe& recipe,
                                 const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return tl::unexpected(
        system_error(failed.value(), "cannot make the folder for logs", folder.string()));
  }
  auto lock = lock_file(folder / kOutputLock, holder_text(command, recipe), /*wait=*/false);
  if (!lock && lock.error().kind == ErrorKind::unsupported) {
    report_warning("another run may write into the same folder: " + lock.error().message());
    return Descriptor();
  }
  if (!lock && lock.error().kind == ErrorKind::busy) {
    return fail(ErrorKind::busy, "another command writes its logs here: " + lock.error().what,
                folder.string(), "wait for its end, or name another output folder");
  }
  return lock;
}

}  // namespace autotuned::daemon
