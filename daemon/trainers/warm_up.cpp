// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/warm_up.hpp"

#include <algorithm>

namespace autotuned::daemon {
namespace {

constexpr double kNotableGain = 1.02;
constexpr int kFlatBlocks = 3;
constexpr int kMaxBlocks = 20;
constexpr std::chrono::nanoseconds kMaxTime = std::chrono::seconds(3);
constexpr int kSlowBlocks = 2;

}  // namespace

void WarmUp::add(double samples_per_second, std::chrono::nanoseconds duration, long steps) {
  ++blocks_;
  duration_ += duration;
  const bool is_faster = blocks_ == 1 || samples_per_second > fastest_ * kNotableGain;
  flat_blocks_ = is_faster ? 0 : flat_blocks_ + 1;
  fastest_ = std::max(fastest_, samples_per_second);
  const bool is_slow = duration / steps > kSlowStep;
  is_over_ = flat_blocks_ >= kFlatBlocks || blocks_ >= kMaxBlocks || duration_ >= kMaxTime ||
             (is_slow && blocks_ >= kSlowBlocks);
}

}  // namespace autotuned::daemon
