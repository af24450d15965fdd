// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace autotuned {
namespace {

TEST(Statistics, MedianIsTheMiddle) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median({4.0, 1.0, 3.0, 2.0}), 2.5);
}

TEST(Statistics, UpperHalfIsTheMeanOfTheLargerValues) {
  EXPECT_EQ(upper_half({}).mean, 0.0);
  EXPECT_EQ(upper_half({7.0}).mean, 7.0);
  EXPECT_EQ(upper_half({1.0, 4.0, 2.0, 3.0}).mean, 3.5);
  EXPECT_EQ(upper_half({3.0, 1.0, 2.0}).mean, 2.5);
  EXPECT_EQ(upper_half({5.0, 5.0, 1.0}).standard_error, 0.0);
}

// The deviation of the mean over many samples is what its standard error says, for noise without and with a tail of
// values that something has lowered.
TEST(Statistics, UpperHalfKnowsItsError) {
  constexpr int kSamples = 4000;
  constexpr std::size_t kValues = 20;
  for (const double lowered_share : {0.0, 0.3}) {
    std::mt19937_64 engine(7);
    std::normal_distribution<double> normal;
    std::bernoulli_distribution is_lowered(lowered_share);
    std::exponential_distribution<double> lost(1.0 / 6.0);
    double sum = 0.0;
    double squares = 0.0;
    double errors = 0.0;
    for (int sample = 0; sample < kSamples; ++sample) {
      std::vector<double> values(kValues);
      for (double& value : values)
        value = normal(engine) - (is_lowered(engine) ? lost(engine) : 0.0);
      const UpperHalf half = upper_half(values);
      sum += half.mean / kSamples;
      squares += half.mean * half.mean / kSamples;
      errors += half.standard_error / kSamples;
    }
    const double deviation = std::sqrt(squares - sum * sum);
    EXPECT_NEAR(errors / deviation, 1.0, 0.1) << lowered_share;
  }
}

}  // namespace
}  // namespace autotuned
