// SPDX-License-Identifier: Apache-2.0
// Evidence against the hypothesis "the true log-ratio is `shift`": an e-process over the signs of the
// log-ratios of pairs, valid at any stopping time, and the confidence sequence that follows from it.
// docs/statistics.md derives both.
#pragma once

#include <span>

namespace autotuned::tuner {

// A pair of blocks.
struct ObservedPair {
  double log_ratio = 0.0;
  double expected_noise = 0.0;  // spread of log_ratio, estimated only from the pairs before
};

// The side of `shift` on which the alternative hypothesis lies.
enum class Side { above, below };

// A test of level `error_probability` that can stop after `fewest_pairs` equal signs in a row. To stop earlier, a larger part of the initial
// wealth is staked whole on every pair. This part is lost with the first opposite sign.
// REQUIRES: 2^-fewest_pairs <= error_probability.
struct SignTest {
  double error_probability = 0.01;
  int fewest_pairs = 7;

  // The part of the initial wealth that is staked whole on every pair.
  [[nodiscard]] double all_in_weight() const;
};

// The test with the fewest pairs that the error allows: 7 at 1 %, 5 at 5 %.
[[nodiscard]] SignTest fastest_test(double error_probability);

// Returns the value of the e-process after these pairs; it starts at 1. If the true log-ratio is `shift`, the probability that the
// value ever reaches 1 / error_probability is at most error_probability.
[[nodiscard]] double e_value(std::span<const ObservedPair> pairs, double shift, Side side,
                             const SignTest& test);

// Returns one end of the confidence sequence at these pairs, as a log-ratio: the lower end for Side::above, the upper end for
// Side::below; minus or plus infinity if there are too few pairs. Shifts are tested from outside the data inwards, and the end is the
// last one that is refuted before the first one that is not. The search tests `landmark` (the shift on which a decision depends) and
// 32 more shifts over the range of the data, then bisects to 1e-5.
[[nodiscard]] double confidence_bound(std::span<const ObservedPair> pairs, Side side,
                                      const SignTest& test, double landmark);

}  // namespace autotuned::tuner
