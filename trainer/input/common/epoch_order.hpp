// SPDX-License-Identifier: Apache-2.0
// The order of the samples in an epoch.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace autotuned::input {

// A position in the sequence of samples of a training: `sample` is a position in the epoch's order, not an index.
struct Position {
  std::int64_t epoch = 0;  // from 0
  std::int64_t sample = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

// The permutation of one epoch at a time. The sample at a position depends on (seed, epoch, position)
// and the number of samples alone, so that any epoch can be entered anywhere without replaying others.
//
// Shuffled: Fisher-Yates from the last position down, exchanging position i with position
// (random(i) * (i + 1)) >> 64, where random(i) is the i-th output of SplitMix64 started at a state
// mixed from seed and epoch. Not shuffled: the identity. Changing this changes what recipes train.
//
// 4 bytes per sample, allocated once. One thread at a time.
class EpochOrder {
 public:
  // REQUIRES: 1 <= samples < 2^32.
  EpochOrder(std::int64_t samples, std::uint64_t seed, bool is_shuffled);

  // All positions of `epoch`, valid until the next call. Costs a few ns per sample when the epoch is
  // not that of the last call, otherwise nothing.
  [[nodiscard]] std::span<const std::uint32_t> of_epoch(std::int64_t epoch);

 private:
  std::uint64_t seed_;
  bool is_shuffled_;
  std::int64_t epoch_ = -1;  // of what order_ holds
  std::vector<std::uint32_t> order_;
};

}  // namespace autotuned::input
