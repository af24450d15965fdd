// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/common/epoch_order.hpp"

#include <cassert>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "trainer/input/common/random.hpp"

namespace autotuned::input {

EpochOrder::EpochOrder(std::int64_t samples, std::uint64_t seed, bool is_shuffled)
    : seed_(seed), is_shuffled_(is_shuffled) {
  assert(samples >= 1 && samples <= std::numeric_limits<std::uint32_t>::max());
  order_.resize(static_cast<std::size_t>(samples));
  std::iota(order_.begin(), order_.end(), 0U);
}

std::span<const std::uint32_t> EpochOrder::of_epoch(std::int64_t epoch) {
  assert(epoch >= 0);
  if (!is_shuffled_ || epoch == epoch_) return order_;
  // From the identity, not from the order of another epoch: this one depends on nothing else.
  std::iota(order_.begin(), order_.end(), 0U);
  const RandomStream random(seed_, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    std::swap(order_[i], order_[below(random.at(i), i + 1)]);
  }
  epoch_ = epoch;
  return order_;
}

}  // namespace autotuned::input
