// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/draws.hpp"

#include <sys/random.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>

#include "trainer/common/tensor_hash.hpp"

namespace autotuned::trainer {

Draws::Draws() {
  // Without the kernel's generator, the clock must do.
  const auto bytes = static_cast<ssize_t>(sizeof(state_));
  if (::getrandom(&state_, sizeof(state_), GRND_NONBLOCK) == bytes) return;
  state_ = static_cast<std::uint64_t>(
      std::chrono::high_resolution_clock::now().time_since_epoch().count());
}

// SplitMix64.
std::uint64_t Draws::next() {
  state_ += kOddBits;
  return mixed_bits(state_);
}

void BatchDraws::begin(std::int64_t batches) {
  is_on_ = true;
  chosen_ = draws_.next() % static_cast<std::uint64_t>(std::max<std::int64_t>(batches, 1));
  next_ = 0;
}

bool BatchDraws::takes_next() {
  if (!is_on_) return false;
  const bool is_one_of_more = draws_.takes_one_of(kBatchesForOne);
  return next_++ == chosen_ || is_one_of_more;
}

}  // namespace autotuned::trainer
