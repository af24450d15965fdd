// SPDX-License-Identifier: Apache-2.0
// Rows times weights, and rows made columns: what vector code gives is what one number after the other gives.
#include "trainer/input/pixels/weighted_rows.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "trainer/input/common/random.hpp"

namespace autotuned::input {
namespace {

std::vector<std::uint8_t> noise(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::uint8_t>(mix64(seed * 1'000'003 + i));
  return bytes;
}

// That add up to 1 and are anything else.
std::vector<std::uint32_t> weights_of(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> weights(count, 0);
  std::uint64_t left = std::uint64_t{1} << kWeightBits;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::uint64_t one = below(mix64(seed + i), left + 1);
    weights[i] = static_cast<std::uint32_t>(one);
    left -= one;
  }
  weights.back() = static_cast<std::uint32_t>(left);
  return weights;
}

std::vector<std::uint8_t> expected_of(const std::vector<std::uint8_t>& rows, std::size_t width,
                                      std::size_t first,
                                      const std::vector<std::uint32_t>& weights) {
  std::vector<std::uint8_t> result;
  for (std::size_t x = 0; x < width; ++x) {
    std::uint64_t sum = std::uint64_t{1} << (kWeightBits - 1);
    for (std::size_t k = 0; k < weights.size(); ++k)
      sum += std::uint64_t{rows[(first + k) * width + x]} * weights[k];
    result.push_back(static_cast<std::uint8_t>(std::min<std::uint64_t>(sum >> kWeightBits, 255)));
  }
  return result;
}

TEST(RowWeights, WeighRowsOfAnyWidthByAnyNumberOfWeights) {
  for (const std::size_t width : {1, 2, 31, 32, 33, 63, 64, 95, 224, 257, 600}) {
    for (const std::size_t count : {1, 2, 3, 4, 5, 8, 13, 2000, 2001}) {
      SCOPED_TRACE(testing::Message() << width << " columns, " << count << " weights");
      const auto rows = noise((count + 2) * width, width + count);
      RowWeights axis;
      axis.reset(3, count);
      const auto weights = weights_of(count, width * count);
      axis.set(1, 2, weights);
      std::vector<std::uint8_t> result(width + 1, 0xAB);
      axis.weigh(1, rows.data(), width, result.data());
      EXPECT_EQ(result.back(), 0xAB);  // nothing is written behind the end
      result.pop_back();
      ASSERT_EQ(result, expected_of(rows, width, 2, weights));
    }
  }
}

TEST(RowWeights, GiveWhiteForWhiteWhereWeightsAreRoundedUp) {
  for (const std::size_t count : {2, 40, 2000}) {
    const std::vector<std::uint8_t> rows(count * 40, 255);
    auto weights = weights_of(count, 5);
    for (auto& weight : weights)
      weight = std::min(weight + 2, std::uint32_t{1} << kWeightBits);
    RowWeights axis;
    axis.reset(1, count);
    axis.set(0, 0, weights);
    std::vector<std::uint8_t> result(40);
    axis.weigh(0, rows.data(), 40, result.data());
    EXPECT_THAT(result, testing::Each(255)) << count;
  }
}

TEST(RowWeights, ForgetWhatTheyWere) {
  const std::vector<std::uint8_t> rows = noise(80, 1);
  RowWeights axis;
  axis.reset(1, 2);
  axis.set(0, 0, weights_of(2, 1));
  axis.reset(1, 2);
  axis.set(0, 1, weights_of(1, 1));
  std::vector<std::uint8_t> result(40);
  axis.weigh(0, rows.data(), 40, result.data());
  EXPECT_TRUE(std::equal(result.begin(), result.end(), rows.begin() + 40));
}

TEST(Transpose, ExchangesRowsAndColumnsOfAnySize) {
  for (const std::size_t rows : {1, 7, 15, 16, 17, 32, 50}) {
    for (const std::size_t width : {1, 3, 16, 31, 32, 100}) {
      const auto bytes = noise(rows * width, rows);
      std::vector<std::uint8_t> result(bytes.size());
      transpose(bytes.data(), rows, width, result.data());
      for (std::size_t y = 0; y < rows; ++y) {
        for (std::size_t x = 0; x < width; ++x)
          ASSERT_EQ(result[x * rows + y], bytes[y * width + x]) << rows << " x " << width;
      }
    }
  }
}

}  // namespace
}  // namespace autotuned::input
