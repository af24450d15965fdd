// SPDX-License-Identifier: Apache-2.0
// When to stop stepping: small rules of the measuring loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace autotuned::trainer {

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

// How many steps several ranks make before they look together whether a block is over: looking costs a message, which
// a trainer alone does not pay, so they look once where they know what a step takes. By the figures that all of them
// have: `steps` in `elapsed_ns` so far, and `step_ns` of a step (0: not known; then they look after one). At least 1.
[[nodiscard]] inline std::int64_t steps_until_look(std::int64_t steps, std::int64_t elapsed_ns,
                                                   std::int64_t minimum_steps,
                                                   std::int64_t minimum_ns, std::int64_t step_ns) {
  constexpr std::int64_t kMostBetweenNs = 1'000'000'000;  // a cancel is noticed by then
  // Rather a step too many than a second look.
  constexpr std::int64_t kSpareShare = 50;
  if (step_ns <= 0) return 1;
  const std::int64_t required = std::max<std::int64_t>(minimum_steps - steps, 1);
  const std::int64_t left_ns = std::max<std::int64_t>(minimum_ns - elapsed_ns, 0);
  const std::int64_t by_time = (left_ns + left_ns / kSpareShare + step_ns - 1) / step_ns;
  return std::clamp<std::int64_t>(std::max(required, by_time), 1,
                                  std::max<std::int64_t>(kMostBetweenNs / step_ns, 1));
}

// How many steps of a training several ranks make until they ask the first of them whether it was cancelled: each question
// is a message for which all of them wait. `steps` were made since the last question, in `elapsed_ns` of the first rank.
// At most twice as many as before, so that a few short steps do not put the next question far off. At least 1.
[[nodiscard]] inline std::int64_t steps_until_question(std::int64_t steps,
                                                       std::int64_t elapsed_ns) {
  constexpr std::int64_t kBetweenNs = 50'000'000;
  const std::int64_t step_ns =
      std::max<std::int64_t>(elapsed_ns / std::max<std::int64_t>(steps, 1), 1);
  return std::clamp<std::int64_t>(kBetweenNs / step_ns, 1, 2 * std::max<std::int64_t>(steps, 1));
}

// A block that ends with fewer ready batches than it started with has lived off work done before its
// clock started: a full ring would hide a slow loader. So a block that is long enough goes on until
// the ring is as full as at its start. Where that does not happen within another minimum length, the
// loader is the slower side and the ring will not fill again: what was measured so far becomes
// warm-up, and the block starts over with what is in the ring now.
class RingRule {
 public:
  explicit RingRule(int fullness) : target_(fullness) {}

  enum class Next { end, go_on, start_over };

  // REQUIRES: elapsed_ns >= minimum_ns. Says `start_over` at most as often as there were batches.
  [[nodiscard]] Next after(std::int64_t elapsed_ns, std::int64_t minimum_ns, int fullness) {
    // Without a minimum nobody wants a rate.
    if (fullness >= target_ || minimum_ns == 0) return Next::end;
    if (elapsed_ns < 2 * minimum_ns) return Next::go_on;
    target_ = fullness;
    return Next::start_over;
  }

 private:
  int target_;
};

// The same for a profile, which records a number of steps and cannot go on: a loader that keeps up has made, while a few
// steps more go by, what the recorded ones took. Where the ring is not as full again by then, ready batches hid how long the
// steps have to wait: they are dropped, and the steps are recorded once more.
class RefillRule {
 public:
  explicit RefillRule(int fullness) : target_(fullness) {}

  enum class Next { keep, step, record_again };

  static constexpr int kMostSteps = 3;

  // Asked after the recorded steps, and again after what it says. Once `maximum_ns` are over no further step begins, and
  // with less than half of it left no second recording. Says `record_again` once at most.
  [[nodiscard]] Next after(std::int64_t elapsed_ns, std::int64_t maximum_ns, int fullness) {
    if (is_second_ || fullness >= target_) return Next::keep;
    if (steps_ < kMostSteps && elapsed_ns < maximum_ns) {
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
