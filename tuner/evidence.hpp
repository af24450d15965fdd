// SPDX-License-Identifier: Apache-2.0
// Bets on the signs of log-ratios: how much evidence the pairs carry against "the true log-ratio is
// `shift`". docs/statistics.md derives what is used here.
#pragma once

#include <span>

namespace autotuned::tuner {

// A pair of blocks. `expected_noise` is what the pairs before it, and nothing else, say about the
// spread of its log-ratio.
struct ObservedPair {
  double log_ratio = 0.0;
  double expected_noise = 0.0;
};

// Which side of `shift` the bettor expects the log-ratios on.
enum class Side { above, below };

// A test that errs with probability `error_ratio` and in which an unbroken row of `fewest_pairs` signs
// settles the matter. The fewer, the more money stakes everything on every pair, and the less is left
// for the day when the row breaks. REQUIRES: 2^-fewest_pairs <= error_ratio.
struct SignTest {
  double error_ratio = 0.01;
  int fewest_pairs = 7;

  // The share of the money that stakes everything.
  [[nodiscard]] double all_in_share() const;
};

// With the fewest pairs that a fair coin allows: 7 at 1 %, 5 at 5 %.
[[nodiscard]] SignTest fastest_test(double error_ratio);

// Money won from 1 by betting pair after pair on `side` of `shift`. While the true log-ratio *is*
// `shift` it reaches 1 / error_ratio with probability at most error_ratio, at any time.
[[nodiscard]] double wealth(std::span<const ObservedPair> pairs, double shift, Side side,
                            const SignTest& test);

// One end of an interval: the lower with Side::above, the upper with Side::below. Coming from outside
// the data, the last shift that is refuted before the first that is not; minus or plus infinity while
// there are too few pairs. The walk looks at `landmark`, the shift that a decision hangs on, itself,
// and at 32 more over the range of the data; then it bisects to 1e-5.
[[nodiscard]] double interval_end(std::span<const ObservedPair> pairs, Side side,
                                  const SignTest& test, double landmark);

}  // namespace autotuned::tuner
