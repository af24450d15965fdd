// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/common/epoch_order.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace autotuned::input {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

std::vector<std::uint32_t> copy_of(std::span<const std::uint32_t> order) {
  return {order.begin(), order.end()};
}

std::vector<std::uint32_t> counting(std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

TEST(EpochOrder, HoldsEveryIndexExactlyOnce) {
  for (const std::int64_t samples : {1, 2, 3, 7, 64, 1000, 60'000}) {
    for (const std::uint64_t seed : {0ULL, 1ULL, ~0ULL}) {
      EpochOrder order(samples, seed, true);
      for (const std::int64_t epoch : {0, 1, 5}) {
        auto sorted = copy_of(order.of_epoch(epoch));
        std::sort(sorted.begin(), sorted.end());
        EXPECT_THAT(sorted, ElementsAreArray(counting(static_cast<std::size_t>(samples))));
      }
    }
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochAlone) {
  EpochOrder straight(1000, 7, true);
  std::vector<std::vector<std::uint32_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    epochs.push_back(copy_of(straight.of_epoch(epoch)));
  }
  EpochOrder jumping(1000, 7, true);
  for (const std::size_t epoch : {3U, 0U, 2U, 2U, 1U}) {
    EXPECT_THAT(jumping.of_epoch(static_cast<std::int64_t>(epoch)),
                ElementsAreArray(epochs[epoch]));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EpochOrder other_seed(1000, 8, true);
  EXPECT_NE(copy_of(other_seed.of_epoch(0)), epochs[0]);
}

// What recipes train depends on it: a change of these numbers is a change of every result.
TEST(EpochOrder, NeverChanges) {
  EpochOrder order(10, 1, true);
  EXPECT_THAT(order.of_epoch(0), ElementsAre(2, 4, 1, 8, 6, 0, 5, 3, 7, 9));
  EXPECT_THAT(order.of_epoch(1), ElementsAre(9, 7, 4, 3, 8, 6, 5, 2, 1, 0));
}

TEST(EpochOrder, IsTheIdentityUnshuffled) {
  EpochOrder order(100, 1, false);
  EXPECT_THAT(order.of_epoch(0), ElementsAreArray(counting(100)));
  EXPECT_THAT(order.of_epoch(9), ElementsAreArray(counting(100)));
}

// Chi-squared over which sample comes first, with 15 degrees of freedom; the seeds are fixed.
TEST(EpochOrder, IsUniform) {
  constexpr std::size_t kSamples = 16;
  constexpr int kEpochs = 16'000;
  EpochOrder order(kSamples, 42, true);
  std::vector<int> first(kSamples);
  std::vector<int> last(kSamples);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto samples = order.of_epoch(epoch);
    ++first[samples.front()];
    ++last[samples.back()];
  }
  constexpr double kExpected = double{kEpochs} / kSamples;
  constexpr double kQuantile = 37.7;  // 0.1 %
  for (const auto& counts : {first, last}) {
    double chi_squared = 0;
    for (const int count : counts) {
      chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
    }
    EXPECT_LT(chi_squared, kQuantile);
  }
}

// torch.utils.data.DistributedSampler of a list, from its definition: the list is continued from its beginning, or cut, until
// it can be dealt out evenly; then rank r has the elements r, r + ranks and so on.
std::vector<std::uint32_t> sampled(std::vector<std::uint32_t> list, std::int64_t rank,
                                   std::int64_t ranks, bool drops) {
  const auto step = static_cast<std::size_t>(ranks);
  const std::size_t samples = drops ? list.size() / step : (list.size() + step - 1) / step;
  const std::vector<std::uint32_t> once = list;
  while (list.size() < samples * step)
    list.push_back(once[list.size() % once.size()]);
  list.resize(samples * step);
  std::vector<std::uint32_t> taken;
  for (std::size_t i = static_cast<std::size_t>(rank); i < list.size(); i += step)
    taken.push_back(list[i]);
  return taken;
}

TEST(EpochOrder, DealsOutAnEpochAsDistributedSamplerDoes) {
  for (const std::int64_t samples : {1, 2, 5, 12, 13, 1000}) {
    for (const std::int64_t ranks : {2, 3, 4, 7}) {
      for (const bool drops : {false, true}) {
        if (drops && samples < ranks) continue;
        for (const bool is_shuffled : {false, true}) {
          EpochOrder whole(samples, 7, is_shuffled);
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const Share share{.rank = rank, .ranks = ranks, .drops = drops};
            EpochOrder part(samples, 7, is_shuffled, share);
            for (const std::int64_t epoch : {0, 3, 1}) {
              const auto expected = sampled(copy_of(whole.of_epoch(epoch)), rank, ranks, drops);
              EXPECT_EQ(copy_of(part.of_epoch(epoch)), expected)
                  << samples << " samples, rank " << rank << " of " << ranks;
              EXPECT_EQ(share.samples_of(samples), std::ssize(expected));
            }
          }
        }
      }
    }
  }
}

// As DistributedSampler of PyTorch 2.11 deals them out with shuffle=False.
TEST(EpochOrder, HasTheSharesOfPyTorch) {
  const auto share_of = [](std::int64_t rank, bool drops) {
    EpochOrder order(7, 1, false, {.rank = rank, .ranks = 3, .drops = drops});
    return copy_of(order.of_epoch(0));
  };
  EXPECT_THAT(share_of(0, false), ElementsAre(0, 3, 6));
  EXPECT_THAT(share_of(1, false), ElementsAre(1, 4, 0));
  EXPECT_THAT(share_of(2, false), ElementsAre(2, 5, 1));
  EXPECT_THAT(share_of(0, true), ElementsAre(0, 3));
  EXPECT_THAT(share_of(2, true), ElementsAre(2, 5));
}

}  // namespace
}  // namespace autotuned::input
