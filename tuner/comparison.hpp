// SPDX-License-Identifier: Apache-2.0
// A sequential test whether the candidate is faster. Its decision may be read after every pair of blocks.
//
// Each pair gives one log-ratio of rates, and a fair coin decides which of the two blocks runs first. Between
// equal configurations the sign of each log-ratio is therefore a fair coin flip, for any distribution of the
// noise. The wealth of a bet on the sign cannot grow on average (an e-process); by Ville's inequality it
// exceeds 1/alpha with probability at most alpha at *any* stopping time. The test, inverted over shifted
// log-ratios, gives a confidence sequence: an interval that holds at every look. docs/statistics.md has the
// details.
#pragma once

#include <vector>

#include "base/trial.hpp"
#include "tuner/evidence.hpp"

namespace autotuned::tuner {

// The error probabilities of a comparison, and the gain that it looks for.
struct ComparisonRules {
  double accept_error_probability =
      0.01;  // largest probability of accepting a change without effect
  double reject_error_probability =
      0.05;                      // largest probability of rejecting a gain of min_gain_ratio
  double min_gain_ratio = 0.02;  // the least gain worth keeping, as a ratio less 1
};

enum class Decision { undecided, accept, reject };

// The upper end of an interval for which there are too few pairs. Finite, so that it can be stored and sent.
inline constexpr double kNoUpperEnd = 1e6;

// Returns `estimate` with an interval that contains its ratio. Ends that move outwards hold with the same probability at least.
[[nodiscard]] Estimate widened_to_ratio(Estimate estimate);

// Deterministic; one thread at a time. One add() after 300 pairs takes 0.2 ms.
class Comparison {
 public:
  explicit Comparison(ComparisonRules rules);
  [[nodiscard]] const ComparisonRules& rules() const { return rules_; }

  // Adds a pair. `log_ratio`: log(candidate's rate / reference's rate). `log_level`: log of the geometric
  // mean of the two rates. Pairs at a similar level are the best estimate of each other's noise. Bets may
  // depend on the level, because it does not tell which of the two blocks is the candidate's. REQUIRES:
  // finite.
  void add(double log_ratio, double log_level = 0.0);

  // Accept: the confidence sequence lies above 1, and both the median and plausible_ratio() are at least 1 + min_gain_ratio.
  // Reject: the confidence sequence lies below 1 + min_gain_ratio.
  [[nodiscard]] Decision decision() const;

  // The median ratio with its confidence sequence. `low` exceeds the true ratio with probability at most
  // accept_error_probability, and `high` is below it with probability at most reject_error_probability, over all looks
  // together; so the confidence sequence never widens. With too few pairs the ends are 0 and kNoUpperEnd. If the ratio
  // drifts during the measurement, the ends of all looks can cross; then they are those of the last look
  // alone. After a drift the median can also lie outside of what earlier looks have left; then the interval is widened to it.
  [[nodiscard]] const Estimate& estimate() const { return estimate_; }

  // The median, or the end of the confidence sequence that is nearest to it where it lies outside. For decisions, not to be shown.
  [[nodiscard]] double plausible_ratio() const { return plausible_ratio_; }

  // Robust standard deviation of the log-ratios: 1.4826 x median absolute deviation; 0 for fewer than two
  // pairs.
  [[nodiscard]] double noise_ratio() const;

  [[nodiscard]] std::vector<double> log_ratios() const;

 private:
  [[nodiscard]] double expected_noise(double log_level) const;

  ComparisonRules rules_;
  std::vector<ObservedPair> pairs_;
  std::vector<double> log_levels_;
  // The ends of the interval over all looks.
  double low_ = 0.0;
  double high_ = kNoUpperEnd;
  double plausible_ratio_ = 1.0;
  Estimate estimate_;
};

}  // namespace autotuned::tuner
