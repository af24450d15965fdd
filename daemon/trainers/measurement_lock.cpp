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

// The text of ".next" names a process that waits as well, and not the one that measures.
constexpr const char* kOthersWait = "other sessions wait for their turn, too";

// ErrorKind::busy after `deadline`. `who`: for `on_wait`; empty: what the lock file says.
Result<Descriptor> take(const std::filesystem::path& file, Clock::time_point deadline,
                        CancelSource& cancel, const std::string& who,
                        std::function<void(const std::string&)>& on_wait) {
  for (;;) {
    if (cancel.is_requested()) {
      return fail(ErrorKind::cancelled, "stopped while another session measured");
    }
    auto lock = lock_file(file, "process " + std::to_string(::getpid()), /*wait=*/false);
    if (lock || lock.error().kind != ErrorKind::busy) return lock;
    if (!who.empty()) lock = fail(ErrorKind::busy, who);
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
  // The holder of this second lock gets the measurement lock next. The holder of the lock has to take it, too, to get
  // the lock again.
  const auto turn = take(next, deadline, cancel, kOthersWait, on_wait_);
  auto lock = turn ? take(file_, deadline, cancel, "", on_wait_) : tl::unexpected(turn.error());
  has_waited_in_vain_ = !lock && lock.error().kind == ErrorKind::busy;
  if (!has_waited_in_vain_) return lock;
  if (!std::exchange(has_warned_, true) && on_warning_) {
    on_warning_("this session has waited " + format_duration(limit_) +
                " for its turn to measure (" + lock.error().message() +
                "): it now goes on beside the others, and they disturb each other's rates; end a "
                "process that hangs");
  }
  return Descriptor();
}

}  // namespace autotuned::daemon
