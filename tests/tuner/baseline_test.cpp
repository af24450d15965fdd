// SPDX-License-Identifier: Apache-2.0
#include "tuner/baseline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>

#include "tests/tuner/simulation.hpp"

namespace autotuned::tuner {
namespace {

// `disturbed`: the numbers of the blocks, from 1 on, that somebody disturbs for an hour.
Result<Baseline> baseline_with(const std::set<int>& disturbed) {
  Simulation simulation;
  int blocks = 0;
  simulation.job.fault = [&](const Configuration&) -> std::optional<Error> {
    if (!disturbed.contains(++blocks)) return std::nullopt;
    simulation.clock.advance(std::chrono::hours(1));
    return disturbance();
  };
  return measure_baseline(simulation.input, simulation.job, simulation.ledger, simulation.clock);
}

// As by a batch system that suspends the job for a while.
TEST(Baseline, ABlockThatIsDisturbedIsMeasuredOnceMore) {
  const auto usual = baseline_with({});
  ASSERT_TRUE(usual) << usual.error().message();
  for (const std::set<int>& blocks : {std::set<int>{1}, std::set<int>{3}, std::set<int>{2, 5}}) {
    const auto baseline = baseline_with(blocks);
    ASSERT_TRUE(baseline) << baseline.error().message();
    EXPECT_EQ(baseline->pair_time, usual->pair_time) << "without the time of the disturbance";
    EXPECT_NEAR(baseline->samples_per_second, usual->samples_per_second,
                0.1 * usual->samples_per_second);
  }
}

TEST(Baseline, ABlockThatIsDisturbedTwiceEndsItAndTheJobIsNotToBlame) {
  const auto baseline = baseline_with({3, 4});
  ASSERT_FALSE(baseline);
  EXPECT_TRUE(baseline.error().is_disturbance);
  EXPECT_EQ(baseline.error().message(), "a priority was changed");
}

}  // namespace
}  // namespace autotuned::tuner
