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

// A betting strategy that expects a log-ratio of `gain` beyond the shift under noise with heavy tails (Student's
// t with two degrees of freedom): it stakes little on pairs that hardly differ, most on pairs that differ
// by about the gain, and little again on pairs that differ by a stall.
struct Strategy {
  double gain;
  double weight;  // share of the initial wealth that is not staked whole
};

// Most wealth is for small gains, which are hard to show. The two others find large gains if noise sometimes turns a sign.
constexpr std::array<Strategy, 3> kStrategies{{{0.05, 0.88}, {0.15, 0.06}, {0.5, 0.06}}};

// The limit of a wealth: far above every threshold, far below overflow.
constexpr double kMaxWealth = 1e150;

constexpr int kScanSteps = 32;
constexpr double kResolution = 1e-5;

// The fraction in -1..1 of the wealth that is staked on the expected sign of a pair that lies `distance` >= 0 from the shift.
double bet_fraction(double distance, double gain, double noise) {
  const double width = 2.0 * noise * noise;
  const double near = width + (distance - gain) * (distance - gain);
  const double far = width + (distance + gain) * (distance + gain);
  const double near_density = far * std::sqrt(far);
  const double far_density = near * std::sqrt(near);
  return (near_density - far_density) / (near_density + far_density);
}

}  // namespace

SignTest fastest_test(double error_probability) {
  assert(error_probability > 0.0 && error_probability < 1.0);
  return {error_probability, static_cast<int>(std::ceil(-std::log2(error_probability)))};
}

double SignTest::all_in_weight() const {
  const double weight = std::ldexp(1.0 / error_probability, -fewest_pairs);
  assert(weight > 0.0 && weight <= 1.0);
  return weight;
}

double e_value(std::span<const ObservedPair> pairs, double shift, Side side, const SignTest& test) {
  const double direction = side == Side::above ? 1.0 : -1.0;
  double all_in = 1.0;
  std::array<double, kStrategies.size()> wealths;
  wealths.fill(1.0);
  for (const ObservedPair& pair : pairs) {
    const double outcome = direction * (pair.log_ratio - shift);
    if (outcome == 0.0) continue;  // a tie is not a bet
    const double sign = outcome > 0.0 ? 1.0 : -1.0;
    all_in = std::min(kMaxWealth, all_in * (1.0 + sign));
    for (std::size_t i = 0; i < kStrategies.size(); ++i) {
      const double staked =
          bet_fraction(std::abs(outcome), kStrategies[i].gain, pair.expected_noise);
      wealths[i] = std::min(kMaxWealth, wealths[i] * (1.0 + sign * staked));
    }
  }
  const double weight = test.all_in_weight();
  double others = 0.0;
  for (std::size_t i = 0; i < kStrategies.size(); ++i)
    others += kStrategies[i].weight * wealths[i];
  return weight * all_in + (1.0 - weight) * others;
}

double confidence_bound(std::span<const ObservedPair> pairs, Side side, const SignTest& test,
                        double landmark) {
  const double direction = side == Side::above ? 1.0 : -1.0;
  if (static_cast<int>(pairs.size()) < test.fewest_pairs) {
    return -direction * std::numeric_limits<double>::infinity();
  }
  const auto [least, most] = std::ranges::minmax_element(pairs, {}, &ObservedPair::log_ratio);
  // Just outside the data all signs are equal, so the part that is staked whole suffices to refute the shift.
  const double start = (side == Side::above ? *least : *most).log_ratio - direction * kResolution;
  const double end = (side == Side::above ? *most : *least).log_ratio + direction * kResolution;
  const auto is_refuted = [&](double shift) {
    return e_value(pairs, shift, side, test) >= 1.0 / test.error_probability;
  };

  std::array<double, kScanSteps + 1> looks;
  for (int i = 0; i < kScanSteps; ++i) {
    looks[static_cast<std::size_t>(i)] = std::lerp(start, end, (i + 1.0) / kScanSteps);
  }
  looks.back() = std::clamp(landmark, std::min(start, end), std::max(start, end));
  std::ranges::sort(looks, [&](double a, double b) { return direction * a < direction * b; });

  const auto first_open = std::ranges::find_if_not(looks, is_refuted);
  assert(first_open != looks.end());  // at the far end every sign is opposite
  double open = *first_open;
  double refuted = first_open == looks.begin() ? start : *std::prev(first_open);
  while (std::abs(open - refuted) > kResolution) {
    const double middle = std::midpoint(refuted, open);
    (is_refuted(middle) ? refuted : open) = middle;
  }
  return refuted;
}

}  // namespace autotuned::tuner
