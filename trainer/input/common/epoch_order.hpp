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

// The part of every epoch on which one of several ranks trains, split as torch.utils.data.DistributedSampler does: of the
// epoch's order the samples at `rank`, `rank + ranks` and so on. Every rank has as many: what does not come out even is
// left out (`drops`, its drop_last), or the order goes on from its beginning.
struct Share {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  bool drops = false;

  // The number of samples of this part, if an epoch has `all` samples.
  [[nodiscard]] constexpr std::int64_t samples_of(std::int64_t all) const {
    return (drops ? all : all + ranks - 1) / ranks;
  }
  friend bool operator==(const Share&, const Share&) = default;
};

// The permutation of one epoch at a time. The sample at a position depends on (seed, epoch, position)
// and the number of samples alone, so that any epoch can be entered anywhere without replaying others.
//
// Shuffled: Fisher-Yates from the last position down, exchanging position i with position
// (random(i) * (i + 1)) >> 64, where random(i) is the i-th output of SplitMix64 started at a state
// mixed from seed and epoch. Not shuffled: the identity. Changing this changes what recipes train.
//
// 4 bytes per sample, and 4 more for each of a share; allocated once. One thread at a time.
class EpochOrder {
 public:
  // REQUIRES: 1 <= samples < 2^32, share.samples_of(samples) >= 1.
  EpochOrder(std::int64_t samples, std::uint64_t seed, bool is_shuffled, Share share = {});

  // All positions of `epoch`, of the share alone, valid until the next call. Costs a few ns per sample when the epoch is
  // not that of the last call, otherwise nothing.
  [[nodiscard]] std::span<const std::uint32_t> of_epoch(std::int64_t epoch);

 private:
  void take_share();

  std::uint64_t seed_;
  bool is_shuffled_;
  Share share_;
  std::int64_t epoch_ = -1;  // of what order_ holds
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> part_;  // of order_; empty where the share is all of it
};

}  // namespace autotuned::input
