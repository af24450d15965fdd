// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/common/epoch_order.hpp"

#include <cassert>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "trainer/input/common/random.hpp"

namespace autotuned::input {

EpochOrder::EpochOrder(std::int64_t samples, std::uint64_t seed, bool is_shuffled, Share share)
    : seed_(seed), is_shuffled_(is_shuffled), share_(share) {
  assert(samples >= 1 && samples <= std::numeric_limits<std::uint32_t>::max());
  order_.resize(static_cast<std::size_t>(samples));
  assert(share.rank >= 0 && share.rank < share.ranks && share.samples_of(samples) >= 1);
  std::iota(order_.begin(), order_.end(), 0U);
  if (share_.ranks > 1) part_.resize(static_cast<std::size_t>(share_.samples_of(samples)));
  take_share();
}

std::span<const std::uint32_t> EpochOrder::of_epoch(std::int64_t epoch) {
  assert(epoch >= 0);
  const std::vector<std::uint32_t>& taken = share_.ranks > 1 ? part_ : order_;
  if (!is_shuffled_ || epoch == epoch_) return taken;
  // From the identity, not from the order of another epoch: this one depends on nothing else.
  std::iota(order_.begin(), order_.end(), 0U);
  const RandomStream random(seed_, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    std::swap(order_[i], order_[below(random.at(i), i + 1)]);
  }
  epoch_ = epoch;
  take_share();
  return taken;
}

void EpochOrder::take_share() {
  std::size_t at = static_cast<std::size_t>(share_.rank);
  for (std::uint32_t& index : part_) {
    index = order_[at % order_.size()];
    at += static_cast<std::size_t>(share_.ranks);
  }
}

}  // namespace autotuned::input
