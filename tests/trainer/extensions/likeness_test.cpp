// SPDX-License-Identifier: Apache-2.0
#include "trainer/extensions/likeness.hpp"

#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace autotuned::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_likeness(const Likeness& likeness, double norm_ratio, double cosine) {
  EXPECT_DOUBLE_EQ(likeness.norm_ratio, norm_ratio);
  EXPECT_DOUBLE_EQ(likeness.cosine, cosine);
}

TEST(Likeness, IsOfAllTensorsAsOneVector) {
  const TensorList reference = {at::full({3, 1}, 1.0), at::full({}, 1.0)};
  expect_likeness(likeness_of(reference, reference), 1.0, 1.0);
  expect_likeness(likeness_of({at::full({3, 1}, 3.0), at::full({}, 3.0)}, reference), 3.0, 1.0);
  expect_likeness(likeness_of({at::full({3, 1}, -0.5), at::full({}, -0.5)}, reference), 0.5, -1.0);
  // Three of four equal numbers.
  expect_likeness(likeness_of({at::full({3, 1}, 1.0), at::zeros({})}, reference), std::sqrt(0.75),
                  std::sqrt(0.75));
}

TEST(Likeness, TakesWhatIsNotDefinedAsZeros) {
  const at::Tensor none;
  const at::Tensor ones = at::ones({4});
  expect_likeness(likeness_of({none}, {none}), 1.0, 1.0);
  expect_likeness(likeness_of({none}, {at::zeros({4})}), 1.0, 1.0);
  expect_likeness(likeness_of({none}, {ones}), 0.0, 0.0);
  expect_likeness(likeness_of({ones}, {none}), kInfinity, 0.0);
  expect_likeness(likeness_of({ones, none}, {ones, ones}), std::sqrt(0.5), std::sqrt(0.5));
}

// A float has no room for the difference of the squares.
TEST(Likeness, IsOfDifferencesToAnOrigin) {
  const at::Tensor origin = at::full({1, 2}, 1000.0);
  const at::Tensor reference = at::full({3, 2}, 1001.0);
  const at::Tensor other = at::full({3, 2}, 1002.0);
  expect_likeness(likeness_of({other}, {reference}, {origin}), 2.0, 1.0);
  expect_likeness(likeness_of({other}, {reference}, {at::full({3, 2}, 1000.0)}), 2.0, 1.0);
  expect_likeness(likeness_of({at::full({}, 9.0)}, {at::full({}, 11.0)}, {at::full({}, 10.0)}), 1.0,
                  -1.0);
}

TEST(Likeness, EqualTensorsHaveEqualValues) {
  const double nan = std::nan("");
  EXPECT_TRUE(are_equal({at::full({2}, nan)}, {at::full({2}, nan)}));
  EXPECT_TRUE(are_equal({at::full({2}, -0.0)}, {at::zeros({2})}));
  EXPECT_TRUE(are_equal({at::Tensor()}, {at::zeros({2})}));
  EXPECT_TRUE(are_equal({at::eye(3).to_sparse()}, {at::eye(3)}));
  EXPECT_FALSE(are_equal({at::Tensor()}, {at::ones({2})}));
  EXPECT_FALSE(are_equal({at::ones({2})}, {at::ones({2}).add(1e-6)}));
  EXPECT_FALSE(are_equal({at::ones({2})}, {at::ones({1, 2})}));
  EXPECT_FALSE(are_equal({at::ones({2})}, {at::ones({2}, at::kLong)}));
  EXPECT_FALSE(are_equal({at::ones({2})}, {}));
  const at::Tensor small = at::ones({4}).to(at::kFloat8_e4m3fn);
  EXPECT_TRUE(are_equal({small}, {small.clone()}));
  EXPECT_FALSE(are_equal({small}, {at::zeros({4}).to(at::kFloat8_e4m3fn)}));
}

TEST(Likeness, FiniteTensorsHaveNoOtherNumbers) {
  EXPECT_TRUE(are_finite({at::ones({2}), at::Tensor()}));
  EXPECT_FALSE(are_finite({at::ones({2}), at::full({1}, kInfinity)}));
}

TEST(Likeness, IsNearWithinTheLimits) {
  EXPECT_TRUE(is_near({}));
  EXPECT_TRUE(is_near({0.81, 0.951}));
  EXPECT_TRUE(is_near({1.24, 0.951}));
  EXPECT_FALSE(is_near({0.79, 1.0}));
  EXPECT_FALSE(is_near({1.26, 1.0}));
  EXPECT_FALSE(is_near({1.0, 0.949}));
  EXPECT_FALSE(is_near({1.0, std::nan("")}));
}

TEST(Likeness, IsNearWhereRoundingDoesAsMuch) {
  const Likeness by_rounding{0.7, 0.99};
  EXPECT_TRUE(is_near({1.0, 0.85}, by_rounding));  // 16 times as far from 1
  EXPECT_FALSE(is_near({1.0, 0.83}, by_rounding));
  EXPECT_TRUE(is_near({0.56, 1.0}, by_rounding));  // 1.5 times
  EXPECT_TRUE(is_near({1.44, 1.0}, by_rounding));
  EXPECT_FALSE(is_near({0.54, 1.0}, by_rounding));
  // But at least two thirds of the cosine, and a fifth of the length.
  EXPECT_TRUE(is_near({0.21, 0.61}, {0.1, 0.9}));
  EXPECT_FALSE(is_near({1.0, 0.59}, {0.1, 0.9}));
  EXPECT_FALSE(is_near({0.19, 1.0}, {0.1, 0.9}));
  EXPECT_FALSE(is_near({1.0, 0.9}, {kInfinity, 0.0})) << "it says nothing";
}

TEST(Likeness, HasTheNormOfAllTensorsAsOneVector) {
  EXPECT_DOUBLE_EQ(norm_of({at::full({3, 1}, 2.0), at::Tensor(), at::full({}, 2.0)}), 4.0);
  EXPECT_EQ(norm_of({}), 0.0);
}

TEST(Likeness, IsRoughlyNearWithinWideLimits) {
  EXPECT_TRUE(is_roughly_near({0.21, 0.51}, true));
  EXPECT_TRUE(is_roughly_near({4.9, 0.51}, true));
  EXPECT_FALSE(is_roughly_near({0.19, 1.0}, true));
  EXPECT_FALSE(is_roughly_near({5.1, 1.0}, true));
  EXPECT_FALSE(is_roughly_near({1.0, 0.49}, true));
  EXPECT_TRUE(is_roughly_near({1.0, -1.0}, false)) << "a single number";
  EXPECT_FALSE(is_roughly_near({0.0, 0.0}, false));
  EXPECT_TRUE(is_roughly_near({1.0, 0.21}, true, {1.0, 0.95}));  // 16 times as far from 1
  EXPECT_FALSE(is_roughly_near({1.0, 0.19}, true, {1.0, 0.95}));
  EXPECT_FALSE(is_roughly_near({0.0, 0.0}, true, {1.0, 0.95}));
  // Rounding leaves nothing of it.
  EXPECT_TRUE(is_roughly_near({900.0, -0.2}, true, {1.1, 0.1}));
  EXPECT_TRUE(is_roughly_near({900.0, -0.2}, true, {3.0, 1.0}));
}

TEST(NormRatios, ShowASteadyFactor) {
  for (const double factor : {1.12, 0.89}) {
    NormRatios ratios;
    for (int i = 1; i < NormRatios::kLeastCount; ++i)
      ratios.add(factor);
    EXPECT_FALSE(ratios.are_off()) << "too few";
    ratios.add(factor);
    EXPECT_TRUE(ratios.are_off());
    EXPECT_NEAR(ratios.mean(), factor, 1e-12);
    ratios.forget();
    EXPECT_EQ(ratios.count(), 0);
    EXPECT_EQ(ratios.mean(), 1.0);
  }
}

TEST(NormRatios, ShowNothingOfOtherSteps) {
  NormRatios small;
  NormRatios scattered;  // a mean of 1.12, with a standard error of a tenth
  for (int i = 0; i < 30; ++i) {
    small.add(0.945);
    scattered.add(i % 2 == 0 ? 2.0 : 0.63);
  }
  EXPECT_FALSE(small.are_off());
  EXPECT_FALSE(scattered.are_off());
}

}  // namespace
}  // namespace autotuned::trainer
