// SPDX-License-Identifier: Apache-2.0
#include "tuner/evidence.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace autotuned::tuner {
namespace {

// A bettor who expects a log-ratio of `gain` beyond the shift under noise with heavy tails (Student's
// t with two degrees of freedom): little money on pairs that hardly differ, most on pairs that differ
// by about the gain, little again on pairs that a stall has torn apart.
struct Bettor {
  double gain;
  double share;
};

// Small gains are the hard ones; the two others find large gains in noise that breaks the row.
constexpr std::array<Bettor, 3> kBettors{{{0.05, 0.88}, {0.15, 0.06}, {0.5, 0.06}}};

// Far beyond every threshold, far below overflow: whoever has this much stops betting.
constexpr double kEnough = 1e150;

constexpr int kScanSteps = 32;
constexpr double kResolution = 1e-5;

// The stake in -1..1 on the expected sign, of a pair that lies `distance` >= 0 from the shift.
double stake(double distance, double gain, double noise) {
  const double width = 2.0 * noise * noise;
  const double near = width + (distance - gain) * (distance - gain);
  const double far = width + (distance + gain) * (distance + gain);
  const double near_density = far * std::sqrt(far);
  const double far_density = near * std::sqrt(near);
  return (near_density - far_density) / (near_density + far_density);
}

}  // namespace

SignTest fastest_test(double error_ratio) {
  assert(error_ratio > 0.0 && error_ratio < 1.0);
  return {error_ratio, static_cast<int>(std::ceil(-std::log2(error_ratio)))};
}

double SignTest::all_in_share() const {
  const double share = std::ldexp(1.0 / error_ratio, -fewest_pairs);
  assert(share > 0.0 && share <= 1.0);
  return share;
}

double wealth(std::span<const ObservedPair> pairs, double shift, Side side, const SignTest& test) {
  const double direction = side == Side::above ? 1.0 : -1.0;
  double all_in = 1.0;
  std::array<double, kBettors.size()> money;
  money.fill(1.0);
  for (const ObservedPair& pair : pairs) {
    const double outcome = direction * (pair.log_ratio - shift);
    if (outcome == 0.0) continue;  // no side: nobody bets
    const double sign = outcome > 0.0 ? 1.0 : -1.0;
    all_in = std::min(kEnough, all_in * (1.0 + sign));
    for (std::size_t i = 0; i < kBettors.size(); ++i) {
      const double staked = stake(std::abs(outcome), kBettors[i].gain, pair.expected_noise);
      money[i] = std::min(kEnough, money[i] * (1.0 + sign * staked));
    }
  }
  const double share = test.all_in_share();
  double others = 0.0;
  for (std::size_t i = 0; i < kBettors.size(); ++i)
    others += kBettors[i].share * money[i];
  return share * all_in + (1.0 - share) * others;
}

double interval_end(std::span<const ObservedPair> pairs, Side side, const SignTest& test,
                    double landmark) {
  const double direction = side == Side::above ? 1.0 : -1.0;
  if (static_cast<int>(pairs.size()) < test.fewest_pairs) {
    return -direction * std::numeric_limits<double>::infinity();
  }
  const auto [least, most] = std::ranges::minmax_element(pairs, {}, &ObservedPair::log_ratio);
  // Just outside all the data every sign is the same, so the all-in bettor alone refutes.
  const double start = (side == Side::above ? *least : *most).log_ratio - direction * kResolution;
  const double end = (side == Side::above ? *most : *least).log_ratio + direction * kResolution;
  const auto is_refuted = [&](double shift) {
    return wealth(pairs, shift, side, test) >= 1.0 / test.error_ratio;
  };

  std::array<double, kScanSteps + 1> looks;
  for (int i = 0; i < kScanSteps; ++i) {
    looks[static_cast<std::size_t>(i)] = std::lerp(start, end, (i + 1.0) / kScanSteps);
  }
  looks.back() = std::clamp(landmark, std::min(start, end), std::max(start, end));
  std::ranges::sort(looks, [&](double a, double b) { return direction * a < direction * b; });

  const auto first_open = std::ranges::find_if_not(looks, is_refuted);
  assert(first_open != looks.end());  // at the far end every sign is against the bettors
  double open = *first_open;
  double refuted = first_open == looks.begin() ? start : *std::prev(first_open);
  while (std::abs(open - refuted) > kResolution) {
    const double middle = std::midpoint(refuted, open);
    (is_refuted(middle) ? refuted : open) = middle;
  }
  return refuted;
}

}  // namespace autotuned::tuner
