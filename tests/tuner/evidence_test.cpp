// SPDX-License-Identifier: Apache-2.0
// The e-process, counted out: over all sign sequences, not by sampling.
#include "tuner/evidence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tuner/comparison.hpp"

namespace autotuned::tuner {
namespace {

constexpr int kMaxPairs = 12;

std::vector<std::vector<double>> magnitude_patterns() {
  std::vector<std::vector<double>> patterns(5, std::vector<double>(kMaxPairs));
  for (std::size_t i = 0; i < kMaxPairs; ++i) {
    const double x = static_cast<double>(i);
    patterns[0][i] = 0.05;
    patterns[1][i] = 0.001 * std::pow(2.0, x);         // growing
    patterns[2][i] = i % 3 == 0 ? 1.5 : 0.02;          // stalls
    patterns[3][i] = 0.3 / (1.0 + x);                  // settling
    patterns[4][i] = 0.05 + 0.04 * std::sin(1.7 * x);  // waves
  }
  return patterns;
}

// All sequences of signs for the first `length` magnitudes. The noise that each bet assumes depends on
// the signs before it, as it does in a comparison.
template <class Visit>
void for_each_sequence(const std::vector<double>& magnitudes, int length, Visit visit) {
  for (std::uint32_t signs = 0; signs < (1U << static_cast<unsigned>(length)); ++signs) {
    std::vector<ObservedPair> pairs;
    double noise = 0.07;
    for (int i = 0; i < length; ++i) {
      const bool is_plus = (signs >> static_cast<unsigned>(i) & 1U) != 0;
      const double size = magnitudes[static_cast<std::size_t>(i)];
      pairs.push_back({is_plus ? size : -size, noise});
      noise = is_plus ? noise * 0.7 + 0.01 : noise * 1.3;
    }
    visit(pairs);
  }
}

TEST(Evidence, IsWorthOneOnAverageBetweenEquals) {
  for (const auto& magnitudes : magnitude_patterns()) {
    for (const double error : {0.01, 0.05}) {
      for (int length = 1; length <= kMaxPairs; ++length) {
        double total = 0.0;
        for_each_sequence(magnitudes, length, [&](const std::vector<ObservedPair>& pairs) {
          total += e_value(pairs, 0.0, Side::above, fastest_test(error));
        });
        EXPECT_NEAR(std::ldexp(total, -length), 1.0, 1e-12) << length << " pairs";
      }
    }
  }
}

TEST(Evidence, NeverExceedsWhatACoinAllows) {
  const auto magnitudes = magnitude_patterns()[2];
  for (int length = 1; length <= kMaxPairs; ++length) {
    for_each_sequence(magnitudes, length, [&](const std::vector<ObservedPair>& pairs) {
      const double reached = e_value(pairs, 0.0, Side::above, fastest_test(0.01));
      EXPECT_GE(reached, 0.0);
      EXPECT_LE(reached, std::ldexp(1.0, length));
    });
  }
}

TEST(Evidence, FewestPairs) {
  EXPECT_EQ(fastest_test(0.01).fewest_pairs, 7);
  EXPECT_EQ(fastest_test(0.05).fewest_pairs, 5);
  EXPECT_EQ(fastest_test(0.5).fewest_pairs, 1);
  EXPECT_DOUBLE_EQ(fastest_test(0.01).all_in_weight(), 0.78125);
  EXPECT_DOUBLE_EQ(fastest_test(0.05).all_in_weight(), 0.625);
  EXPECT_DOUBLE_EQ((SignTest{0.05, 7}.all_in_weight()), 0.15625);
}

TEST(Evidence, EqualSignsSufficeInTheFewestPairs) {
  for (const double error : {0.01, 0.05}) {
    const auto fewest = static_cast<std::size_t>(fastest_test(error).fewest_pairs);
    for (const auto& magnitudes : magnitude_patterns()) {
      std::vector<ObservedPair> pairs;
      for (std::size_t i = 0; i < fewest; ++i) {
        EXPECT_LT(e_value(pairs, 0.0, Side::above, fastest_test(error)), 1.0 / error);
        pairs.push_back({magnitudes[i], 0.07});
      }
      EXPECT_GE(e_value(pairs, 0.0, Side::above, fastest_test(error)), 1.0 / error);
    }
  }
}

TEST(Evidence, SidesMirrorEachOther) {
  const std::vector<ObservedPair> pairs = {{0.1, 0.07}, {-0.02, 0.05}, {0.3, 0.06}, {0.0, 0.05}};
  std::vector<ObservedPair> mirrored = pairs;
  for (ObservedPair& pair : mirrored)
    pair.log_ratio = -pair.log_ratio;
  EXPECT_DOUBLE_EQ(e_value(pairs, 0.0, Side::above, fastest_test(0.01)),
                   e_value(mirrored, 0.0, Side::below, fastest_test(0.01)));
  EXPECT_DOUBLE_EQ(e_value(pairs, 0.05, Side::above, fastest_test(0.01)),
                   e_value(mirrored, -0.05, Side::below, fastest_test(0.01)));
}

TEST(Evidence, APairWithoutASideIsNotBetOn) {
  const std::vector<ObservedPair> one = {{0.1, 0.07}};
  const std::vector<ObservedPair> two = {{0.1, 0.07}, {0.0, 0.07}};
  EXPECT_DOUBLE_EQ(e_value(one, 0.0, Side::above, fastest_test(0.01)),
                   e_value(two, 0.0, Side::above, fastest_test(0.01)));
}

TEST(Evidence, WhatWasStakedWholeIsNotAllTheWealth) {
  // One small adverse pair among clear ones costs a few pairs, not the verdict.
  std::vector<ObservedPair> pairs = {{-0.005, 0.07}};
  int needed = 0;
  while (e_value(pairs, 0.0, Side::above, fastest_test(0.01)) < 100.0 && needed < 50) {
    pairs.push_back({0.1, 0.03});
    ++needed;
  }
  EXPECT_LE(needed, 12);
}

TEST(Evidence, DoesNotOverflow) {
  const std::vector<ObservedPair> pairs(5000, {0.05, 0.01});
  EXPECT_TRUE(std::isfinite(e_value(pairs, 0.0, Side::above, fastest_test(0.01))));
  EXPECT_GT(e_value(pairs, 0.0, Side::above, fastest_test(0.01)), 1e100);
  EXPECT_LT(e_value(pairs, 0.0, Side::below, fastest_test(0.01)), 1e-100);
}

TEST(Evidence, ConfidenceBoundIsOpenBeforeTheFewestPairs) {
  const std::vector<ObservedPair> six(6, {0.5, 0.07});
  EXPECT_EQ(confidence_bound(six, Side::above, fastest_test(0.01), 0.0),
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(confidence_bound(six, Side::below, fastest_test(0.01), 0.0),
            std::numeric_limits<double>::infinity());
  const std::vector<ObservedPair> seven(7, {0.5, 0.07});
  EXPECT_NEAR(confidence_bound(seven, Side::above, fastest_test(0.01), 0.0), 0.5, 1e-4);
  EXPECT_NEAR(confidence_bound(seven, Side::below, fastest_test(0.01), 0.0), 0.5, 1e-4);
}

TEST(Evidence, EverythingOutsideTheIntervalIsRefuted) {
  std::vector<ObservedPair> pairs;
  for (int i = 0; i < 40; ++i)
    pairs.push_back({0.1 + 0.08 * std::sin(2.3 * i), 0.05});
  const double low = confidence_bound(pairs, Side::above, fastest_test(0.01), 0.0);
  const double high = confidence_bound(pairs, Side::below, fastest_test(0.01), 0.0);
  EXPECT_LT(low, 0.1);
  EXPECT_GT(high, 0.1);
  EXPECT_LT(high - low, 0.15);
  for (int i = 0; i <= 100; ++i) {
    EXPECT_GE(e_value(pairs, low - 0.02 * i, Side::above, fastest_test(0.01)), 100.0);
    EXPECT_GE(e_value(pairs, high + 0.02 * i, Side::below, fastest_test(0.01)), 100.0);
  }
  EXPECT_LT(e_value(pairs, low + 2e-5, Side::above, fastest_test(0.01)), 100.0);
}

// Ville's inequality, counted out with the production code: of all sign sequences of equal
// configurations, the share that is *ever* decided for the candidate.
double share_ever_above(const Comparison& so_far, const std::vector<double>& magnitudes,
                        std::size_t depth) {
  if (so_far.estimate().low > 1.0) return 1.0;
  if (depth == magnitudes.size()) return 0.0;
  double share = 0.0;
  for (const double sign : {1.0, -1.0}) {
    Comparison next = so_far;
    next.add(sign * magnitudes[depth], depth % 4 == 0 ? -0.5 : 0.01 * static_cast<double>(depth));
    share += share_ever_above(next, magnitudes, depth + 1) / 2.0;
  }
  return share;
}

TEST(Evidence, NoMoreThanOnePercentOfAllSequencesEverWins) {
  for (const auto& magnitudes : magnitude_patterns()) {
    const double share = share_ever_above(Comparison({}), magnitudes, 0);
    EXPECT_LE(share, 0.01);
    EXPECT_GE(share, std::ldexp(1.0, -7));  // so many equal signs do
  }
}

TEST(Evidence, NoMoreThanFivePercentOfAllSequencesEverLoses) {
  for (const auto& magnitudes : magnitude_patterns()) {
    // Around a gain of exactly min_gain: a reject is an error.
    ComparisonRules rules;
    const double gain = std::log1p(rules.min_gain_ratio);
    int rejected = 0;
    for (std::uint32_t signs = 0; signs < 1024; ++signs) {
      Comparison comparison(rules);
      for (std::size_t i = 0; i < 10; ++i) {
        const double sign = (signs >> i & 1U) != 0 ? 1.0 : -1.0;
        comparison.add(gain + sign * magnitudes[i]);
        if (comparison.decision() == Decision::reject) {
          ++rejected;
          break;
        }
      }
    }
    EXPECT_LE(rejected, 51);
    EXPECT_GE(rejected, 8);  // seven equal signs
  }
}

}  // namespace
}  // namespace autotuned::tuner
