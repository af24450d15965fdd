// SPDX-License-Identifier: Apache-2.0
#include "tuner/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/tuner/noise.hpp"

namespace autotuned::tuner {
namespace {

TEST(Comparison, SaysNothingBeforeTheFirstPair) {
  const Comparison comparison({});
  EXPECT_EQ(comparison.decision(), Decision::undecided);
  EXPECT_EQ(comparison.estimate(),
            (Estimate{.ratio = 1.0, .low = 0.0, .high = kNoUpperEnd, .pairs = 0}));
  EXPECT_EQ(comparison.noise_ratio(), 0.0);
}

TEST(Comparison, AcceptsALargeGainAtTheSeventhPair) {
  Comparison comparison({});
  for (int pair = 1; pair <= 7; ++pair) {
    EXPECT_EQ(comparison.decision(), Decision::undecided) << pair;
    comparison.add(0.7 + 0.05 * (pair % 3));
  }
  EXPECT_EQ(comparison.decision(), Decision::accept);
  EXPECT_GT(comparison.estimate().low, 1.9);
  EXPECT_EQ(comparison.estimate().pairs, 7);
}

TEST(Comparison, AcceptsAtTheFifthPairAtFivePercent) {
  Comparison comparison({.accept_error_probability = 0.05});
  for (int pair = 1; pair <= 5; ++pair) {
    EXPECT_EQ(comparison.decision(), Decision::undecided) << pair;
    comparison.add(0.3);
  }
  EXPECT_EQ(comparison.decision(), Decision::accept);
}

TEST(Comparison, RejectsASlowerCandidateAtTheSeventhPair) {
  Comparison comparison({});
  for (int pair = 1; pair <= 7; ++pair) {
    EXPECT_EQ(comparison.decision(), Decision::undecided) << pair;
    comparison.add(-0.3);
  }
  EXPECT_EQ(comparison.decision(), Decision::reject);
  EXPECT_LT(comparison.estimate().high, 1.0);
}

TEST(Comparison, AGainBelowTheLeastOneIsNoWinner) {
  Comparison comparison({});
  for (int pair = 0; pair < 100; ++pair)
    comparison.add(std::log(1.01));
  EXPECT_GT(comparison.estimate().low, 1.0);
  EXPECT_EQ(comparison.decision(), Decision::reject);
}

TEST(Comparison, EstimatesByTheMedian) {
  Comparison comparison({});
  for (const double ratio : {0.1, 0.2, 5.0})
    comparison.add(std::log(ratio));
  EXPECT_DOUBLE_EQ(comparison.estimate().ratio, 0.2);
  comparison.add(std::log(0.8));
  EXPECT_NEAR(comparison.estimate().ratio, 0.4, 1e-12);
}

TEST(Comparison, NoiseIsTheMedianDeviation) {
  Comparison comparison({});
  comparison.add(0.0);
  EXPECT_EQ(comparison.noise_ratio(), 0.0);
  for (const double value : {0.1, -0.1, 0.2, -5.0})
    comparison.add(value);
  EXPECT_NEAR(comparison.noise_ratio(), 0.14826, 1e-12);
}

TEST(Comparison, AStallDoesNotUndoWhatIsKnown) {
  Comparison comparison({});
  for (int pair = 0; pair < 12; ++pair)
    comparison.add(0.3 + 0.01 * (pair % 4));
  ASSERT_EQ(comparison.decision(), Decision::accept);
  comparison.add(-3.0);
  EXPECT_EQ(comparison.decision(), Decision::accept);
  EXPECT_GT(comparison.estimate().low, 1.0);
}

TEST(Comparison, EndsOnlyCloseIn) {
  const Noise noise = noise_kinds()[5].make(3);
  std::mt19937_64 coins(5);
  Comparison comparison({});
  double low = 0.0;
  double high = kNoUpperEnd;
  for (int pair = 0; pair < 80; ++pair) {
    comparison.add(((coins() & 1U) != 0 ? 1.0 : -1.0) * (noise() - noise()) + 0.1);
    const Estimate& estimate = comparison.estimate();
    EXPECT_GE(estimate.ratio, estimate.low);
    EXPECT_LE(estimate.ratio, estimate.high);
    // An end at the median may be one that was widened to it.
    if (estimate.low != estimate.ratio) {
      EXPECT_GE(estimate.low, low);
      low = estimate.low;
    }
    if (estimate.high != estimate.ratio) {
      EXPECT_LE(estimate.high, high);
      high = estimate.high;
    }
  }
}

// Eight pairs of more than 1.6 times the rate, then nine of another ratio: the median is theirs.
Comparison drifted_to(double log_ratio) {
  Comparison comparison({});
  for (int pair = 0; pair < 8; ++pair)
    comparison.add(pair % 2 == 0 ? 0.5 : 0.6);
  for (int pair = 0; pair < 9; ++pair)
    comparison.add(log_ratio);
  return comparison;
}

// The first pairs refuted what the later ones show: the median is told all the same, and the interval contains it.
TEST(Comparison, ShowsTheMedianWhereItDriftedOutOfTheConfidenceSequence) {
  const Comparison drifted = drifted_to(0.4);
  EXPECT_NEAR(drifted.estimate().ratio, std::exp(0.4), 1e-9);
  EXPECT_EQ(drifted.estimate().low, drifted.estimate().ratio);
  EXPECT_GT(drifted.estimate().high, std::exp(0.5));
  EXPECT_NEAR(drifted.plausible_ratio(), std::exp(0.5), 0.001);
  EXPECT_EQ(drifted.decision(), Decision::accept);
}

TEST(Comparison, AGainThatIsGoneInTheMedianIsNotAccepted) {
  EXPECT_NE(drifted_to(std::log(1.01)).decision(), Decision::accept);
}

// A machine that changes its clock: no single ratio explains all pairs, and what is shown is still an interval.
TEST(Comparison, EndsAreInOrderWhereTheRatioMoves) {
  Comparison comparison({});
  for (int pair = 0; pair < 25; ++pair)
    comparison.add(1.40 + 0.002 * (pair % 5));
  const double low_before = comparison.estimate().low;
  for (int pair = 0; pair < 100; ++pair)
    comparison.add(1.30 + 0.002 * (pair % 5));
  const Estimate& estimate = comparison.estimate();
  EXPECT_LT(estimate.high, low_before);
  EXPECT_LE(estimate.low, estimate.ratio);
  EXPECT_LE(estimate.ratio, estimate.high);
  EXPECT_EQ(comparison.decision(), Decision::accept);
}

class InNoise : public testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] Noise noise(int seed) const {
    return noise_kinds()[GetParam()].make(static_cast<std::uint64_t>(seed));
  }
};

TEST_P(InNoise, EqualConfigurationsHaveAWinnerInOnePercentAtMost) {
  constexpr int kVerdicts = 1000;
  int winners = 0;
  for (int i = 0; i < kVerdicts; ++i) {
    const Comparison done = compare_in(noise(i), static_cast<std::uint64_t>(i), 0.0, 60);
    winners += done.decision() == Decision::accept ? 1 : 0;
  }
  EXPECT_LE(winners, most_events(kVerdicts, 0.01));
}

TEST_P(InNoise, TheIntervalHoldsTheTruthAtAllLooks) {
  constexpr int kVerdicts = 400;
  const double truth = 1.3;
  int above = 0;
  int below = 0;
  for (int i = 0; i < kVerdicts; ++i) {
    const Comparison done =
        compare_in(noise(i), static_cast<std::uint64_t>(i), std::log(truth), 60, {}, true);
    above += done.estimate().low > truth ? 1 : 0;
    below += done.estimate().high < truth ? 1 : 0;
  }
  EXPECT_LE(above, most_events(kVerdicts, 0.01));
  EXPECT_LE(below, most_events(kVerdicts, 0.05));
}

TEST_P(InNoise, ASlowerCandidateIsNoWinner) {
  constexpr int kVerdicts = 400;
  int winners = 0;
  for (int i = 0; i < kVerdicts; ++i) {
    const Comparison done = compare_in(noise(i), static_cast<std::uint64_t>(i), -0.02, 60);
    winners += done.decision() == Decision::accept ? 1 : 0;
  }
  EXPECT_LE(winners, most_events(kVerdicts, 0.01));
}

TEST_P(InNoise, TwiceAsFastIsFound) {
  constexpr int kVerdicts = 200;
  int found = 0;
  for (int i = 0; i < kVerdicts; ++i) {
    const Comparison done = compare_in(noise(i), static_cast<std::uint64_t>(i), std::log(2.0), 60);
    found += done.decision() == Decision::accept ? 1 : 0;
  }
  EXPECT_GE(found, 198);
}

INSTANTIATE_TEST_SUITE_P(Kinds, InNoise, testing::Range<std::size_t>(0, 6),
                         [](const auto& kind) { return noise_kinds()[kind.param].name; });

TEST(Comparison, FindsFivePercentInModerateNoise) {
  constexpr int kVerdicts = 300;
  int found = 0;
  for (int i = 0; i < kVerdicts; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Comparison done = compare_in(normal_noise(seed, 0.05), seed, std::log(1.05), 100);
    found += done.decision() == Decision::accept ? 1 : 0;
  }
  EXPECT_GE(found, 285);
}

TEST(Comparison, FindsTheLeastGainOnAQuietDevice) {
  // A GPU's steps vary by a thousandth.
  int found = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Comparison done = compare_in(normal_noise(seed, 0.001), seed, std::log(1.03), 12);
    found += done.decision() == Decision::accept ? 1 : 0;
  }
  EXPECT_EQ(found, 100);
}

}  // namespace
}  // namespace autotuned::tuner
