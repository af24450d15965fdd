// SPDX-License-Identifier: Apache-2.0
// Evidence of pairs against "the true log-ratio is `shift`": an e-process over the signs of their log-ratios, valid at any
// stopping time, and the confidence sequence that it gives. docs/statistics.md derives what is used here.
#pragma once

#include <span>

namespace autotuned::tuner {

// A pair of blocks. `expected_noise` is what the pairs before it, and nothing else, say about the
// spread of its log-ratio.
struct ObservedPair {
  double log_ratio = 0.0;
  double expected_noise = 0.0;
};

// On which side of `shift` the alternative lies.
enum class Side { above, below };

// A test of level `error_ratio` whose earliest stopping time is `fewest_pairs`: so many equal signs in succession suffice. The
// earlier, the more of the initial wealth is staked whole on every pair, and lost with the first sign to the contrary.
// REQUIRES: 2^-fewest_pairs <= error_ratio.
struct SignTest {
  double error_ratio = 0.01;
  int fewest_pairs = 7;

  // The part of the initial wealth that is staked whole on every pair.
  [[nodiscard]] double all_in_weight() const;
};

// With the fewest pairs that a fair coin allows: 7 at 1 %, 5 at 5 %.
[[nodiscard]] SignTest fastest_test(double error_ratio);

// The wealth of the e-process after these pairs, from 1. While the true log-ratio *is* `shift` it reaches
// 1 / error_ratio with probability at most error_ratio, at any time.
[[nodiscard]] double wealth(std::span<const ObservedPair> pairs, double shift, Side side,
                            const SignTest& test);

// One end of the confidence sequence at these pairs: the lower with Side::above, the upper with Side::below. Coming from outside
// the data, the last shift that is refuted before the first that is not; minus or plus infinity while
// there are too few pairs. The walk looks at `landmark`, the shift that a decision hangs on, itself,
// and at 32 more over the range of the data; then it bisects to 1e-5.
[[nodiscard]] double confidence_bound(std::span<const ObservedPair> pairs, Side side,
                                      const SignTest& test, double landmark);

}  // namespace autotuned::tuner
