// SPDX-License-Identifier: Apache-2.0
// Is the candidate faster? A sequential answer that may be looked at after every pair of blocks.
//
// Each pair of blocks gives one log-ratio of rates, and a fair coin decides which of the two runs
// first. So between equal configurations the sign of each log-ratio is a coin flip whatever the noise
// does, given its size: the wealth of a bet on the sign cannot grow on average (an e-process), and by Ville's
// inequality it passes 1/alpha with probability at most alpha at *any* stopping time. Inverting the test over
// shifted log-ratios gives a confidence sequence, an interval that holds at every look. docs/statistics.md has the details.
#pragma once

#include <vector>

#include "base/trial.hpp"
#include "tuner/evidence.hpp"

namespace autotuned::tuner {

struct ComparisonRules {
  double accept_error_ratio = 0.01;  // a winner between equals, at most
  double reject_error_ratio = 0.05;  // dropping a gain of min_gain_ratio or more, at most
  double min_gain_ratio = 0.02;
};

enum class Decision { undecided, accept, reject };

// The upper end of an interval that has none yet. Finite, so that it can be stored and sent.
inline constexpr double kNoUpperEnd = 1e6;

// Pure and deterministic. Not thread-safe. At 300 pairs add() takes 0.2 ms.
class Comparison {
 public:
  explicit Comparison(ComparisonRules rules);

  // log(candidate's rate / reference's rate) of the next pair, and log of the geometric mean of the
  // two rates: pairs that ran at a similar speed are the best guide to each other's noise. Blind to
  // which of the two blocks is the candidate's, the level may be bet upon. REQUIRES: finite.
  void add(double log_ratio, double log_level = 0.0);

  // Accept: the interval lies above 1 and the estimate is at least 1 + min_gain_ratio.
  // Reject: the interval lies below 1 + min_gain_ratio.
  [[nodiscard]] Decision decision() const;

  // The median ratio. `low` is above the true ratio with probability at most accept_error_ratio,
  // `high` below it with at most reject_error_ratio, at all looks together; so they only ever close in.
  // While there are too few pairs to refute anything they are 0 and kNoUpperEnd. A ratio that moves while
  // it is measured may leave nothing between them: then they are those of this look alone.
  [[nodiscard]] const Estimate& estimate() const { return estimate_; }

  // Robust spread of the log-ratios: 1.4826 x median absolute deviation; 0 for fewer than two pairs.
  [[nodiscard]] double noise_ratio() const;

  [[nodiscard]] std::vector<double> log_ratios() const;

 private:
  [[nodiscard]] double expected_noise(double log_level) const;

  ComparisonRules rules_;
  std::vector<ObservedPair> pairs_;
  std::vector<double> log_levels_;
  // Ends that hold at all looks together.
  double low_ = 0.0;
  double high_ = kNoUpperEnd;
  Estimate estimate_;
};

}  // namespace autotuned::tuner
