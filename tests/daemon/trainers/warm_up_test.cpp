// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/warm_up.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace autotuned::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// How many blocks of these rates it takes; the last rate stays.
int blocks_until_warm(const std::vector<double>& rates, nanoseconds duration, long steps = 10) {
  WarmUp warm_up;
  int blocks = 0;
  while (!warm_up.is_over() && blocks < 1000) {
    const auto at = std::min(static_cast<std::size_t>(blocks), rates.size() - 1);
    warm_up.add(rates[at], duration, steps);
    ++blocks;
  }
  return blocks;
}

TEST(WarmUp, FlatFromTheBeginningTakesFourBlocks) {
  EXPECT_EQ(blocks_until_warm({100}, milliseconds(50)), 4);
}

TEST(WarmUp, GoesOnWhileItGetsFaster) {
  EXPECT_EQ(blocks_until_warm({50, 70, 90, 100}, milliseconds(50)), 7);
  EXPECT_EQ(blocks_until_warm({100, 101, 101.5, 102}, milliseconds(50)), 4) << "within 2 %";
}

TEST(WarmUp, AFastBlockAmongOthersStartsTheRowAnew) {
  EXPECT_EQ(blocks_until_warm({100, 100, 100, 110, 105}, milliseconds(50)), 7);
}

// A machine that slows down is no reason to wait.
TEST(WarmUp, SlowerBlocksAreFlat) {
  EXPECT_EQ(blocks_until_warm({100, 90, 80, 70}, milliseconds(50)), 4);
}

TEST(WarmUp, EndsWhereItNeverGetsFlat) {
  std::vector<double> rates;
  for (double rate = 1; rates.size() < 100; rate *= 1.1)
    rates.push_back(rate);
  EXPECT_EQ(blocks_until_warm(rates, milliseconds(50)), 20);
  EXPECT_EQ(blocks_until_warm(rates, milliseconds(500)), 6) << "3 s";
}

TEST(WarmUp, SlowStepsTakeTwoBlocks) {
  EXPECT_EQ(blocks_until_warm({10}, milliseconds(1100), 1), 2);
  EXPECT_EQ(blocks_until_warm({10}, seconds(60), 1), 1);
}

}  // namespace
}  // namespace autotuned::daemon
