// SPDX-License-Identifier: Apache-2.0
// Makes sure that only one session of a user measures at a time: sessions on several devices share the CPUs.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/trainers/trainer_client.hpp"

namespace autotuned::daemon {

// One thread. Sessions take turns: a waiting session is next, even if the holder wants the lock again at once.
class MeasurementLock {
 public:
  // `file`: the lock; empty: no lock is taken. `limit`: how long to wait before this session measures at the
  // same time as the holder, which is reported to `on_warning` once. `on_wait` is told why, as a clause, the first time
  // that this session has to wait: "held by process N", or that others wait, too.
  MeasurementLock(std::filesystem::path file, std::chrono::nanoseconds limit,
                  std::function<void(const std::string&)> on_warning,
                  std::function<void(const std::string&)> on_wait = {});

  // Waits for the lock. It is held as long as the returned descriptor is open; a closed descriptor means that the limit
  // has passed. After that, calls do not wait until the lock has been free once. ErrorKind::cancelled as soon as
  // `cancel` is requested.
  Result<Descriptor> acquire(CancelSource& cancel);

  // Sets the limit of later calls of acquire().
  void set_limit(std::chrono::nanoseconds limit) { limit_ = limit; }

 private:
  std::filesystem::path file_;
  std::chrono::nanoseconds limit_;
  std::function<void(const std::string&)> on_warning_;
  std::function<void(const std::string&)> on_wait_;
  bool has_waited_in_vain_ = false;
  bool has_warned_ = false;
};

}  // namespace autotuned::daemon
