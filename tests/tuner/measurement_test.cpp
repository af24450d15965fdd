// SPDX-License-Identifier: Apache-2.0
#include "tuner/measurement.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace autotuned::tuner {
namespace {

// Four pairs of blocks of so many milliseconds and steps.
Measurement measured(std::int64_t block_ms, std::int64_t steps) {
  Measurement measurement(ComparisonRules{});
  Block block;
  block.samples = 100;
  block.steps = steps;
  block.duration_ns = block_ms * 1'000'000;
  for (int pair = 0; pair < 4; ++pair) {
    measurement.add_total(/*is_candidate=*/true, block);
    measurement.add_total(/*is_candidate=*/false, block);
    measurement.add({.candidate = 108.0, .reference = 100.0});
  }
  return measurement;
}

// A stretch is 100 ms, or a step where that is longer.
TEST(Measurement, LongBlocksOfManyStepsShowRareStallsInFewerPairs) {
  EXPECT_EQ(measured(100, 10).pairs_to_watch(1.08), 45);
  EXPECT_EQ(measured(300, 1).pairs_to_watch(1.08), 45) << "each block is one step";
  EXPECT_EQ(measured(300, 2).pairs_to_watch(1.08), 23);
  EXPECT_EQ(measured(300, 8).pairs_to_watch(1.08), 15);
  EXPECT_EQ(measured(300, 8).pairs_to_watch(1.2), 8);
  EXPECT_EQ(measured(300, 8).pairs_to_watch(1.5), 0);
}

TEST(Measurement, BlocksThatTellNoStepsAreOneStretchEach) {
  EXPECT_EQ(measured(300, 0).pairs_to_watch(1.08), 45);
  EXPECT_EQ(Measurement(ComparisonRules{}).pairs_to_watch(1.08), 45) << "before the first pair";
}

// What fresh processes show stands, and the interval of the first look's blocks is widened to it.
TEST(Measurement, FreshProcessesMayContradictTheFirstLook) {
  Measurement measurement(ComparisonRules{});
  measurement.begin_process_pair(/*is_evidence=*/false);
  for (int pair = 0; pair < 10; ++pair)
    measurement.add({.candidate = 140.0 + pair, .reference = 100.0});
  EXPECT_GT(measurement.estimate().low, 1.2);
  for (int process_pair = 0; process_pair < 3; ++process_pair) {
    measurement.begin_process_pair(/*is_evidence=*/true);
    for (int pair = 0; pair < 3; ++pair)
      measurement.add({.candidate = 100.0, .reference = 100.0});
    measurement.end_process_pair();
  }
  EXPECT_DOUBLE_EQ(measurement.estimate().ratio, 1.0);
  EXPECT_DOUBLE_EQ(measurement.estimate().low, 1.0);
  EXPECT_GT(measurement.estimate().high, 1.4);
}

}  // namespace
}  // namespace autotuned::tuner
