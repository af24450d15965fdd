// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/flops.hpp"

#include <gtest/gtest.h>

#include <string>

namespace autotuned::analysis {
namespace {

// 0 where they are not known.
double flops(std::string_view name, std::string_view sizes, std::string_view values = "") {
  return floating_point_operations(name, sizes, values).value_or(0.0);
}

TEST(Flops, OfProducts) {
  EXPECT_EQ(flops("aten::mm", "[[2, 3], [3, 5]]"), 60);
  EXPECT_EQ(flops("aten::mm", "[\n [\n  2,\n  3\n ],\n [3,\t5]\n]"), 60);
  EXPECT_EQ(flops("aten::addmm", "[[5], [2, 3], [3, 5], [], []]"), 60);
  EXPECT_EQ(flops("aten::bmm", "[[7, 2, 3], [7, 3, 5]]"), 420);
  EXPECT_EQ(flops("aten::baddbmm", "[[7, 2, 5], [7, 2, 3], [7, 3, 5], [], []]"), 420);
  EXPECT_EQ(flops("aten::mv", "[[2, 3], [3]]"), 12);
  EXPECT_EQ(flops("aten::linear", "[[4, 2, 3], [5, 3], [5]]"), 240);
  EXPECT_EQ(
      flops("aten::scaled_dot_product_attention", "[[2, 3, 10, 8], [2, 3, 20, 8], [2, 3, 20, 4]]"),
      2.0 * 2 * 3 * 10 * 20 * 12);
}

// The first convolution of ResNet: 64 x 7 x 7 x 3 weights at 112 x 112 places for each picture.
constexpr const char* kSizes = "[[16, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]";
constexpr double kFirst = 2.0 * 16 * 112 * 112 * 64 * 3 * 49;

TEST(Flops, OfConvolutions) {
  EXPECT_EQ(flops("aten::conv2d", kSizes, R"(["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"])"),
            kFirst);
  EXPECT_EQ(flops("aten::convolution", kSizes,
                  R"(["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"])"),
            kFirst);
  EXPECT_EQ(flops("aten::mkldnn_convolution", kSizes,
                  R"(["", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1"])"),
            kFirst);
  EXPECT_EQ(flops("aten::conv2d", kSizes, R"(["", "", "", "[2]", "[3]", "[1]", "1"])"), kFirst);
  // Dilated: 3 weights reach over 5 places.
  EXPECT_EQ(flops("aten::conv1d", "[[1, 1, 9], [1, 1, 3], []]",
                  R"(["", "", "", "[1]", "[0]", "[2]", "1"])"),
            2.0 * 5 * 3);
  // Two groups: each output sees half of the inputs, and the weights are that few.
  EXPECT_EQ(flops("aten::conv2d", "[[1, 8, 4, 4], [6, 4, 1, 1], []]",
                  R"(["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "2"])"),
            2.0 * 16 * 24);
  // Transposed: every place of the input meets every weight.
  EXPECT_EQ(flops("aten::convolution", "[[1, 8, 4, 4], [8, 6, 2, 2], []]",
                  R"(["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"])"),
            2.0 * 16 * 8 * 6 * 4);
}

TEST(Flops, OfTheBackwardOfAConvolution) {
  const std::string sizes =
      "[[16, 64, 112, 112], [16, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], [], []]";
  const auto values = [](const std::string& mask) {
    return R"(["", "", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1", ")" + mask +
           "\"]";
  };
  EXPECT_EQ(flops("aten::convolution_backward", sizes, values("[True, True, False]")), 2 * kFirst);
  EXPECT_EQ(flops("aten::convolution_backward", sizes, values("[False, True, False]")), kFirst);
  // The mask is not told: both gradients, as in most layers.
  EXPECT_EQ(flops("aten::convolution_backward", sizes, values("")), 2 * kFirst);
}

TEST(Flops, AreUnknownWhereTheTraceDoesNotTell) {
  EXPECT_FALSE(floating_point_operations("aten::add", "[[2, 3], [2, 3]]", ""));
  EXPECT_FALSE(has_flop_formula("aten::add"));
  EXPECT_TRUE(has_flop_formula("aten::mm"));
  for (const char* sizes : {"", "[]", "[[2, 3]]", "[[2, 3], []]", "[[2, x], [3, 4]]",
                            "[[[2, 3]], [3, 4]]", "[[2, 3", "]]]][[", "[[-2, 3], [3, 4]]"}) {
    EXPECT_FALSE(floating_point_operations("aten::mm", sizes, "")) << sizes;
  }
  for (const char* values :
       {"", "[]", R"(["", "", "", "same", "[0, 0]", "[1, 1]", "1"])",
        R"(["", "", "", "[0, 0]", "[0, 0]", "[1, 1]", "1"])",
        R"(["", "", "", "[1, 1, 1]", "[0, 0]", "[1, 1]", "1"])",
        R"(["", "", "", "[1, 1]", "[0, 0]", "[9, 9999]", "1"])", R"(["", "", "", ")"}) {
    EXPECT_FALSE(floating_point_operations("aten::conv2d", kSizes, values)) << values;
  }
}

}  // namespace
}  // namespace autotuned::analysis
