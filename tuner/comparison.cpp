// SPDX-License-Identifier: Apache-2.0
#include "tuner/comparison.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "base/statistics.hpp"

namespace autotuned::tuner {
namespace {

// The expected noise before the first pair: that of a shared machine. It weighs as much as one pair.
constexpr double kPriorNoise = 0.07;
// The least noise that is expected, because of timer resolution and rounding.
constexpr double kMinNoise = 0.004;
// The weights of earlier pairs in the expected noise of a pair: by how near their speed was (10 % apart: 0.6) and how recent they are (30
// pairs ago: 0.4).
constexpr double kLevelWidth = 0.1;
constexpr double kMemoryPairs = 30.0;
// The ratio of standard deviation and mean absolute deviation of a normal distribution.
constexpr double kSpreadPerMeanDeviation = 1.2533;

// More than the minimum of 5, because a few unlucky signs at the start must not reject a gain. Two more pairs are cheap.
constexpr int kFewestPairsToReject = 7;

SignTest patient_test(double error_probability) {
  SignTest test = fastest_test(error_probability);
  test.fewest_pairs = std::max(test.fewest_pairs, kFewestPairsToReject);
  return test;
}

}  // namespace

Estimate widened_to_ratio(Estimate estimate) {
  estimate.low = std::min(estimate.low, estimate.ratio);
  estimate.high = std::max(estimate.high, estimate.ratio);
  return estimate;
}

Comparison::Comparison(ComparisonRules rules) : rules_(rules) {
  estimate_.high = kNoUpperEnd;
}

double Comparison::expected_noise(double log_level) const {
  double total = kPriorNoise;
  double weights = 1.0;
  // Deviations from the median do not move when all log-ratios do: the interval relies on it.
  if (pairs_.size() >= 2) {
    const double centre = median(log_ratios());
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double apart = (log_level - log_levels_[i]) / kLevelWidth;
      const double age = static_cast<double>(pairs_.size() - i) / kMemoryPairs;
      const double weight = std::exp(-0.5 * apart * apart - age);
      total += weight * kSpreadPerMeanDeviation * std::abs(pairs_[i].log_ratio - centre);
      weights += weight;
    }
  }
  return std::max(kMinNoise, total / weights);
}

void Comparison::add(double log_ratio, double log_level) {
  assert(std::isfinite(log_ratio) && std::isfinite(log_level));
  pairs_.push_back({log_ratio, expected_noise(log_level)});
  log_levels_.push_back(log_level);

  const double low =
      confidence_bound(pairs_, Side::above, fastest_test(rules_.accept_error_probability), 0.0);
  const double high =
      confidence_bound(pairs_, Side::below, patient_test(rules_.reject_error_probability),
                       std::log1p(rules_.min_gain_ratio));
  // A refuted ratio stays refuted, because a confidence sequence holds at all looks together.
  low_ = std::max(low_, std::exp(low));
  high_ = std::min(high_, std::exp(high));
  double interval_low = low_;
  double interval_high = high_;
  if (low_ > high_) {
    std::tie(interval_low, interval_high) =
        std::minmax({std::exp(low), std::min(kNoUpperEnd, std::exp(high))});
  }
  const double ratio = std::exp(median(log_ratios()));
  plausible_ratio_ = std::clamp(ratio, interval_low, interval_high);
  estimate_ = widened_to_ratio({.ratio = ratio,
                                .low = interval_low,
                                .high = interval_high,
                                .pairs = static_cast<int>(pairs_.size())});
}

Decision Comparison::decision() const {
  const double worth_it = 1.0 + rules_.min_gain_ratio;
  if (low_ > 1.0 && std::min(estimate_.ratio, plausible_ratio_) >= worth_it) {
    return Decision::accept;
  }
  if (high_ < worth_it) return Decision::reject;
  return Decision::undecided;
}

double Comparison::noise_ratio() const {
  return robust_deviation(log_ratios());
}

std::vector<double> Comparison::log_ratios() const {
  std::vector<double> values;
  values.reserve(pairs_.size());
  for (const ObservedPair& pair : pairs_)
    values.push_back(pair.log_ratio);
  return values;
}

}  // namespace autotuned::tuner
