// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/golden.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {
namespace {

Json parameters(std::int64_t samples, Json shape, std::int64_t classes, std::int64_t seed = 1) {
  return {{"samples", samples}, {"shape", std::move(shape)}, {"classes", classes}, {"seed", seed}};
}

std::unique_ptr<Dataset> open(const Json& values) {
  auto dataset = open_dataset("synthetic", values);
  EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message());
  return dataset ? std::move(*dataset) : nullptr;
}

std::vector<std::uint8_t> sample_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(dataset.type().shape().elements()));
  EXPECT_TRUE(dataset.read(index, bytes));
  return bytes;
}

TEST(SyntheticDataset, IsAsLargeAsAskedForAndStoresNothing) {
  const auto dataset = open(parameters(4'000'000'000, {3, 17, 5}, 1000));
  EXPECT_EQ(dataset->size(), 4'000'000'000);
  EXPECT_EQ(dataset->type().shape(), (SampleShape{3, 17, 5}));
  EXPECT_EQ(dataset->classes(), 1000);
  EXPECT_EQ(dataset->label(3'999'999'999), 999);
  EXPECT_TRUE(dataset->view(0).empty());
  EXPECT_NE(sample_of(*dataset, 3'999'999'999), sample_of(*dataset, 999));
}

TEST(SyntheticDataset, IsTheSameEveryTimeAndDependsOnTheSeed) {
  const auto first = open(parameters(100, {3, 9, 11}, 10, 5));
  const auto second = open(parameters(100, {3, 9, 11}, 10, 5));
  const auto other = open(parameters(100, {3, 9, 11}, 10, 6));
  EXPECT_EQ(sample_of(*first, 42), sample_of(*second, 42));
  EXPECT_NE(sample_of(*first, 42), sample_of(*other, 42));
  EXPECT_NE(sample_of(*first, 42), sample_of(*first, 52));
}

TEST(SyntheticDataset, FillsShapesOfAnySize) {
  for (const std::int64_t side : {1, 2, 3, 4, 5, 7, 31}) {
    const auto dataset = open(parameters(10, {2, side, side + 1}, 2));
    // Noise makes a byte that nothing wrote unlikely to stay 0 in all of 64 samples.
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(dataset->type().shape().elements()));
    for (std::int64_t i = 0; i < 10; ++i) {
      const auto bytes = sample_of(*dataset, i);
      for (std::size_t k = 0; k < seen.size(); ++k)
        seen[k] |= bytes[k];
    }
    EXPECT_THAT(seen, testing::Each(testing::Gt(0))) << side;
  }
}

// The nearest class mean, learned from some samples, tells the class of others.
TEST(SyntheticDataset, CanBeLearned) {
  constexpr std::int64_t kClasses = 10;
  const auto dataset = open(parameters(1000, {1, 28, 28}, kClasses));
  const auto elements = static_cast<std::size_t>(dataset->type().shape().elements());
  std::vector<std::vector<double>> means(kClasses, std::vector<double>(elements));
  for (std::int64_t i = 0; i < 200; ++i) {
    const auto bytes = sample_of(*dataset, i);
    auto& mean = means[static_cast<std::size_t>(dataset->label(i))];
    for (std::size_t k = 0; k < elements; ++k)
      mean[k] += bytes[k] / 20.0;
  }
  int right = 0;
  for (std::int64_t i = 200; i < 1000; ++i) {
    const auto bytes = sample_of(*dataset, i);
    std::int64_t nearest = -1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < means.size(); ++c) {
      double distance = 0;
      for (std::size_t k = 0; k < elements; ++k)
        distance += std::pow(bytes[k] - means[c][k], 2);
      if (distance < least) {
        least = distance;
        nearest = static_cast<std::int64_t>(c);
      }
    }
    right += nearest == dataset->label(i) ? 1 : 0;
  }
  EXPECT_EQ(right, 800);
}

TEST(SyntheticDataset, RefusesSizesOutOfRange) {
  const auto what = [](const Json& values) {
    const auto dataset = open_dataset("synthetic", values);
    return dataset ? std::string() : dataset.error().what;
  };
  tests::Cases cases;
  for (const Json& wrong :
       {parameters(0, {1, 1, 1}, 2), parameters(std::int64_t{1} << 32U, {1, 1, 1}, 2),
        parameters(1, {1, 1, 1}, 0), parameters(1, {1, 1, 1}, 2, -1), parameters(1, {1, 1}, 2),
        parameters(1, {1, 0, 1}, 2), parameters(1, {1, "1", 1}, 2),
        parameters(1, {65536, 65536, 65536}, 2), Json::object()})
    cases.add(wrong.dump(), what(wrong));
  tests::expect_golden("trainer/input/datasets/golden/synthetic.txt", cases.text());
}

TEST(SyntheticNormalDataset, IsDrawnFromTheStandardNormalDistribution) {
  auto opened = open_dataset("synthetic_normal", parameters(1000, {3, 50, 41}, 7));
  ASSERT_TRUE(opened) << opened.error().message();
  const Dataset& dataset = **opened;
  EXPECT_EQ(dataset.type(), type_of(Element::float32, {3, 50, 41}));
  EXPECT_EQ(dataset.label(9), 2);
  const auto floats_of = [&](std::int64_t index) {
    std::vector<float> values(3 * 50 * 41);
    EXPECT_TRUE(dataset.read(
        index, {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)}));
    return values;
  };
  EXPECT_EQ(floats_of(5), floats_of(5));
  EXPECT_NE(floats_of(5), floats_of(6));
  double sum = 0;
  double squares = 0;
  double within_one = 0;
  double beyond_three = 0;
  double count = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    for (const float value : floats_of(i)) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
      within_one += std::abs(value) < 1 ? 1 : 0;
      beyond_three += std::abs(value) > 3 ? 1 : 0;
      count += 1;
    }
  }
  EXPECT_NEAR(sum / count, 0, 0.006);
  EXPECT_NEAR(squares / count, 1, 0.01);
  EXPECT_NEAR(within_one / count, 0.6827, 0.003);
  EXPECT_NEAR(beyond_three / count, 0.0027, 0.0003);
}

}  // namespace
}  // namespace autotuned::input
