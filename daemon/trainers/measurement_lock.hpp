// SPDX-License-Identifier: Apache-2.0
// One session at a time measures: those of one user on several devices share the CPUs.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_client.hpp"

namespace autotuned::daemon {

// One thread. Sessions take turns: whoever waits is next, also where the holder wants the lock again at once.
class MeasurementLock {
 public:
  // `file`: the lock; empty: there is nobody to wait for. `limit`: how long to wait before measuring
  // beside the holder, of which `on_warning` is told once. `on_wait` is told who holds it, the first time that it has to
  // be waited for.
  MeasurementLock(std::filesystem::path file, std::chrono::nanoseconds limit,
                  std::function<void(const std::string&)> on_warning,
                  std::function<void(const std::string&)> on_wait = {});

  // Held as long as the descriptor is open; one that is not open where the limit has passed. Later calls do not
  // wait until the lock was free once. ErrorKind::cancelled as soon as `cancel` is requested.
  Result<Descriptor> acquire(CancelSource& cancel);

 private:
  std::filesystem::path file_;
  std::chrono::nanoseconds limit_;
  std::function<void(const std::string&)> on_warning_;
  std::function<void(const std::string&)> on_wait_;
  bool has_waited_in_vain_ = false;
  bool has_warned_ = false;
};

}  // namespace autotuned::daemon
