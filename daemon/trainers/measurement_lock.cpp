// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/measurement_lock.hpp"

#include <poll.h>
#include <unistd.h>

#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"

namespace autotuned::daemon {
namespace {

using Clock = std::chrono::steady_clock;

// flock has no way to wait for a lock and for a cancel at once. Blocks take 100 ms.
constexpr int kPauseMs = 10;

// ErrorKind::busy after `deadline`.
Result<Descriptor> take(const std::filesystem::path& file, Clock::time_point deadline,
                        CancelSource& cancel, std::function<void(const std::string&)>& on_wait) {
  for (;;) {
    if (cancel.is_requested()) {
      return fail(ErrorKind::cancelled, "stopped while another session measured");
    }
    auto lock = lock_file(file, "process " + std::to_string(::getpid()), /*wait=*/false);
    if (lock || lock.error().kind != ErrorKind::busy) return lock;
    if (on_wait) std::exchange(on_wait, {})(lock.error().what);
    if (Clock::now() >= deadline) return lock;
    pollfd polled{cancel.descriptor(), POLLIN, 0};
    (void)::poll(&polled, 1, kPauseMs);  // without a descriptor: a pause
  }
}

}  // namespace

MeasurementLock::MeasurementLock(std::filesystem::path file, std::chrono::nanoseconds limit,
                                 std::function<void(const std::string&)> on_warning,
                                 std::function<void(const std::string&)> on_wait)
    : file_(std::move(file)),
      limit_(limit),
      on_warning_(std::move(on_warning)),
      on_wait_(std::move(on_wait)) {}

Result<Descriptor> MeasurementLock::acquire(CancelSource& cancel) {
  if (file_.empty()) return Descriptor();
  const auto deadline = has_waited_in_vain_ ? Clock::time_point::min() : Clock::now() + limit_;
  std::filesystem::path next = file_;
  next += ".next";
  // Whoever holds this one gets the lock next. The holder of the lock has to take it, too, to get the lock again.
  const auto turn = take(next, deadline, cancel, on_wait_);
  auto lock = turn ? take(file_, deadline, cancel, on_wait_) : tl::unexpected(turn.error());
  has_waited_in_vain_ = !lock && lock.error().kind == ErrorKind::busy;
  if (!has_waited_in_vain_) return lock;
  if (!std::exchange(has_warned_, true) && on_warning_) {
    on_warning_(
        "another session has measured for " + format_duration(limit_) + " (" +
        lock.error().message() +
        "): this one now measures at the same time, and each session disturbs the rates of the "
        "other; end that process if it hangs");
  }
  return Descriptor();
}

}  // namespace autotuned::daemon
