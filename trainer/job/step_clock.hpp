// SPDX-License-Identifier: Apache-2.0
// The rules of the measuring loop that decide when to stop making steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/result.hpp"

namespace autotuned::trainer {

// The error of a request that was cancelled.
[[nodiscard]] inline Error cancelled_error() {
  return {.kind = ErrorKind::cancelled, .what = "stopped by request", .where = {}, .remedy = {}};
}

// Asks `is_cancelled` at most every few milliseconds: it is a system call.
class CancelPoll {
 public:
  explicit CancelPoll(const std::function<bool()>& is_cancelled) : is_cancelled_(is_cancelled) {}

  [[nodiscard]] bool operator()(std::int64_t now_ns) {
    if (!is_cancelled_ || now_ns < next_ns_) return false;
    next_ns_ = now_ns + kPeriodNs;
    return is_cancelled_();
  }

  static constexpr std::int64_t kPeriodNs = 4'000'000;

 private:
  const std::function<bool()>& is_cancelled_;
  std::int64_t next_ns_ = INT64_MIN;
};

// How many steps several ranks make before they decide together whether a block is over. The decision costs a message,
// so if they know the time of a step, they decide only once. Uses figures that all ranks have: `steps` steps took
// `elapsed_ns` so far, and a step takes `step_ns` (0: not known; then they decide after one step). At least 1.
[[nodiscard]] inline std::int64_t steps_until_look(std::int64_t steps, std::int64_t elapsed_ns,
                                                   std::int64_t minimum_steps,
                                                   std::int64_t minimum_ns, std::int64_t step_ns) {
  constexpr std::int64_t kMaxBetweenNs = 1'000'000'000;  // a cancel is noticed by then
  // Allows for some steps too many, to avoid a second decision.
  constexpr std::int64_t kSpareShare = 50;
  if (step_ns <= 0) return 1;
  const std::int64_t required = std::max<std::int64_t>(minimum_steps - steps, 1);
  const std::int64_t left_ns = std::max<std::int64_t>(minimum_ns - elapsed_ns, 0);
  const std::int64_t by_time = (left_ns + left_ns / kSpareShare + step_ns - 1) / step_ns;
  return std::clamp<std::int64_t>(std::max(required, by_time), 1,
                                  std::max<std::int64_t>(kMaxBetweenNs / step_ns, 1));
}

// How many steps of a training several ranks make before they ask the leader whether it was cancelled: each question is
// a message for which all of them wait. `steps` were made since the last question, in `elapsed_ns` of the first rank.
// Returns at most twice as many as before, so that a few short steps do not put the next question far off, and at
// least 1.
[[nodiscard]] inline std::int64_t steps_until_question(std::int64_t steps,
                                                       std::int64_t elapsed_ns) {
  constexpr std::int64_t kBetweenNs = 50'000'000;
  const std::int64_t step_ns =
      std::max<std::int64_t>(elapsed_ns / std::max<std::int64_t>(steps, 1), 1);
  return std::clamp<std::int64_t>(kBetweenNs / step_ns, 1, 2 * std::max<std::int64_t>(steps, 1));
}

// Keeps a full ring from hiding a slow loader: a block that ends with fewer ready batches than it started with has used
// work from before its clock started. So a block that is long enough goes on until the ring is as full as at its start.
// If that does not happen within another minimum length, the loader is slower than the steps and the ring will not fill
// again: the steps so far become warm-up, and the block starts over with the batches that are in the ring now.
class RingRule {
 public:
  explicit RingRule(int fullness) : target_(fullness) {}

  enum class Next { end, go_on, start_over };

  [[nodiscard]] bool is_short(int fullness) const { return fullness < target_; }

  // REQUIRES: elapsed_ns >= minimum_ns. Says `start_over` at most as often as there were batches.
  [[nodiscard]] Next after(std::int64_t elapsed_ns, std::int64_t minimum_ns, int fullness) {
    // Without a minimum the rate is not used.
    if (!is_short(fullness) || minimum_ns == 0) return Next::end;
    if (elapsed_ns < 2 * minimum_ns) return Next::go_on;
    target_ = fullness;
    return Next::start_over;
  }

 private:
  int target_;
};

// The same for a profile, which records a fixed number of steps: a loader that is fast enough refills the ring during a
// few further steps. If the ring is not as full again by then, ready batches have hidden how long the steps wait: the
// batches are dropped, and the steps are recorded once more.
class RefillRule {
 public:
  explicit RefillRule(int fullness) : target_(fullness) {}

  enum class Next { keep, step, record_again };

  static constexpr int kMaxSteps = 3;

  // Called after the recorded steps, and again after each answer was carried out. After `maximum_ns` no further step
  // begins, and with less than half of it left no second recording. Returns `record_again` once at most.
  [[nodiscard]] Next after(std::int64_t elapsed_ns, std::int64_t maximum_ns, int fullness) {
    if (is_second_ || fullness >= target_) return Next::keep;
    if (steps_ < kMaxSteps && elapsed_ns < maximum_ns) {
      ++steps_;
      return Next::step;
    }
    if (elapsed_ns >= maximum_ns / 2) return Next::keep;
    is_second_ = true;
    return Next::record_again;
  }

 private:
  int target_;
  int steps_ = 0;
  bool is_second_ = false;
};

}  // namespace autotuned::trainer
