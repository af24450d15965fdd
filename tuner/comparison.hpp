// SPDX-License-Identifier: Apache-2.0
// Is the candidate faster? A sequential answer that may be looked at after every pair of blocks.
//
// Each pair of blocks gives one log-ratio of rates, and a fair coin decides which of the two runs
// first. So between equal configurations the sign of each log-ratio is a coin flip whatever the noise
// does, given its size: a bet on the sign cannot grow on average (a test martingale), and by Ville's
// inequality it passes 1/alpha with probability at most alpha at *any* time. Inverting the bet over
// shifted log-ratios gives an interval that holds at every look. docs/statistics.md has the details.
#pragma once

#include <vector>

#include "base/trial.hpp"

namespace autotuned::tuner {

struct ComparisonRules {
  double accept_error_ratio = 0.01;  // a winner between equals, at most
  double reject_error_ratio = 0.05;  // dropping a gain of min_gain_ratio or more, at most
  double min_gain_ratio = 0.02;
};

enum class Decision { undecided, accept, reject };

// Pure and deterministic. Not thread-safe.
class Comparison {
 public:
  explicit Comparison(ComparisonRules rules);

  // log(candidate's rate / reference's rate) of the next pair. REQUIRES: finite.
  void add(double log_ratio);

  // Accept: equality is refuted at accept_error_ratio in the candidate's favour and the estimate is at
  // least 1 + min_gain_ratio. Reject: a gain of min_gain_ratio is refuted at reject_error_ratio.
  [[nodiscard]] Decision decision() const;

  // The median ratio and the interval at 1 - accept_error_ratio (two-sided).
  [[nodiscard]] Estimate estimate() const;

  // Robust spread of the log-ratios: 1.4826 x median absolute deviation; 0 for fewer than two pairs.
  [[nodiscard]] double noise_ratio() const;

  [[nodiscard]] const std::vector<double>& log_ratios() const { return log_ratios_; }

 private:
  ComparisonRules rules_;
  std::vector<double> log_ratios_;
};

}  // namespace autotuned::tuner
