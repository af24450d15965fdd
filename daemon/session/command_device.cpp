// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/command_device.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <utility>

#include "base/printable.hpp"
#include "base/process/process.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/common/places.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/report/history_reading.hpp"

namespace autotuned::daemon {

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

Result<DeviceLock> lock_device_for(const std::string& command, const recipes::Recipe& recipe,
                                   const Machine& machine) {
  const auto folder = lock_folder();
  if (!folder) return tl::unexpected(folder.error());
  const std::string holder =
      "autotuned " + command + ", process " + std::to_string(getpid()) + ", recipe " + recipe.name;
  bool is_waiting = false;
  end_left_behind(std::chrono::seconds(2));
  const std::string device = device_of(recipe, machine);
  auto lock = lock_device(device, holder, {*folder}, [&](const std::string& who) {
    if (!std::exchange(is_waiting, true)) {
      std::cerr << "waiting for the device " << device << ", " << printable(who) << "\n";
    }
    poll(nullptr, 0, 200);
    return true;
  });
  if (lock && !lock->problem.empty()) {
    report_warning("runs of other users may use the device meanwhile: " + lock->problem);
  }
  return lock;
}

}  // namespace autotuned::daemon
